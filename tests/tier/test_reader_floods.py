# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Floods of messages from one reader: the daemon stays alive for everybody else."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.controllers import wait_for
from tests.support.tier_reader import TierReader
from tests.support.tiers import TierNode, make_source, one_node, settle
from tests.support.users import become
from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.protocol import (
    VALID_OFFSET,
    Identity,
    MessageKind,
    ReaderCounts,
    ReaderMessage,
)
from tf_malleable.tier.store import blocks, layout
from tf_malleable.tier.store.tenancy import private_area

pytestmark = [pytest.mark.slow, pytest.mark.serial("it measures how long the daemon lives")]
COPIES = 5_000
STRANGER = 4007
SMALL = b"a small file"
BOOT = Path("/proc/sys/kernel/random/boot_id").read_text()


def with_copies(folder: Path, count: int) -> Path:
    """Return a source of small files, of which there are copies in the store of a node below."""
    source = make_source(folder / "source", {f"new/{n}": SMALL for n in range(20)})
    store = folder / "node" / "store"
    area = private_area(os.geteuid())
    codes = (blocks.checksum(SMALL),)
    store.mkdir(parents=True)
    (store / "boot-id").write_text(BOOT.strip())
    for number in range(count):
        path = source / f"set/{number % 100}/{number}"
        copy = Path(layout.path_of(store, key_of(area, str(path))))
        for each in (path, copy):
            each.parent.mkdir(parents=True, exist_ok=True)
            each.write_bytes(SMALL)
        settle(path)
        with copy.open("rb") as opened:
            layout.mark(opened.fileno(), Identity.of(os.stat(path)), codes)
    return source


@pytest.fixture(scope="module")
def node() -> Iterator[TierNode]:
    # Of pytest's own folders other users may not enter any.
    folder = Path(tempfile.mkdtemp(prefix="tfm-floods-"))
    folder.chmod(0o755)
    try:
        with one_node(folder, with_copies(folder, COPIES), "--shared") as found:
            found.folder.chmod(0o755)
            assert found.status()["copies"] == COPIES
            wait_for(lambda: left(found) > 0)
            yield found
    finally:
        shutil.rmtree(folder)


def left(node: TierNode) -> float:
    """Return for how many seconds the life sign is still valid; negative if it is not."""
    data = node.socket.with_name("s.state").read_bytes()
    until = int.from_bytes(data[VALID_OFFSET : VALID_OFFSET + 8], "little")
    return until / 1e9 - time.clock_gettime(time.CLOCK_BOOTTIME)


def _connect(node: TierNode) -> socket.socket:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    found.connect(str(node.socket))
    return found


def _say(node: TierNode, kind: MessageKind, paths: list[Path], connections: int = 1) -> None:
    counts = ReaderCounts()
    messages = [ReaderMessage(kind, counts, str(path)).encode() for path in paths]
    ends = [_connect(node) for _ in range(connections)]
    while True:
        for end in ends:
            for message in messages:
                end.send(message)


def _ask(node: TierNode) -> None:
    end = _connect(node)
    mine, theirs = socket.socketpair()
    number = 0
    while True:
        number += 1
        path = str(node.source / f"none/{number}")
        message = ReaderMessage(MessageKind.ASK, ReaderCounts(), path).encode()
        socket.send_fds(end, [message], [theirs.fileno()])
        with suppress(BlockingIOError):
            mine.recv(4096, socket.MSG_DONTWAIT)


def _hand_over(node: TierNode) -> None:
    """Hand over what must be refused, as often as possible."""
    end = _connect(node)
    folder = os.open("/", os.O_PATH)
    message = ReaderMessage(MessageKind.WHOLE, ReaderCounts(), str(node.source / "x")).encode()
    while True:
        socket.send_fds(end, [message], [folder] * 3)


def _connect_for_ever(node: TierNode) -> None:
    while True:
        _connect(node).close()


FLOODS: dict[str, Callable[[TierNode], None]] = {
    "the source was closed": lambda node: _say(node, MessageKind.CLOSED, [node.source]),
    "everything is read unseen": lambda node: _say(
        node,
        MessageKind.UNSEEN,
        [node.source / f"set/{n % 100}/{n}" for n in range(COPIES)],
    ),
    "many connections": lambda node: _say(node, MessageKind.COUNTS, [node.source], 100),
    "counts": lambda node: _say(node, MessageKind.COUNTS, [node.source / "x"]),
    "questions": _ask,
    "descriptors": _hand_over,
    "connections": _connect_for_ever,
}


@contextmanager
def flooded(node: TierNode, flood: Callable[[TierNode], None], uid: int) -> Iterator[None]:
    """Have a stranger flood a daemon for the length of a with statement."""
    child = os.fork()
    if not child:
        try:
            become(uid, uid)
            flood(node)
        finally:
            os._exit(1)
    try:
        yield
        assert os.waitpid(child, os.WNOHANG) == (0, 0), "the flood has ended by itself"
    finally:
        os.kill(child, signal.SIGKILL)
        with suppress(ChildProcessError):
            os.waitpid(child, 0)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be several users")
@pytest.mark.parametrize("name", FLOODS)
def test_a_flood_of_one_stranger_stops_nobody(node, name):
    folder = f"/proc/{node.process.pid}/fd"
    before = len(os.listdir(folder))
    reader = TierReader(node)
    try:
        with flooded(node, FLOODS[name], STRANGER):
            worst = 3.0
            for number in range(5):
                path = node.source / f"new/{number}"
                reader.whole(path)
                assert reader.ask(path) == "S"
                wait_for(lambda: node.status()["copies"] == COPIES + 1)
                assert node.has(path)
                settle(path, 50.0 + len(name) + number)
                wait_for(lambda path=path: not node.has(path))
                end = time.monotonic() + 1.0
                while time.monotonic() < end:
                    worst = min(worst, left(node))
                    time.sleep(0.01)
            # It is renewed each half second, for three.
            assert worst > 0
            assert len(os.listdir(folder)) < before + 700
        assert "Traceback" not in node.log.read_text()
        wait_for(lambda: len(os.listdir(folder)) <= before + 5)
    finally:
        reader.close()
    assert node.status()["copies"] == COPIES


def test_a_folder_that_is_moved_away_takes_its_copies_along(node):
    """Of the copies in a folder, only those of changed files go."""
    folder = node.source / "set/7"
    paths = sorted(folder.iterdir())
    assert all(map(node.has, paths))
    paths[3].unlink()
    paths[5].write_bytes(SMALL * 2)
    wait_for(lambda: not node.has(paths[3]) and not node.has(paths[5]))
    assert sum(map(node.has, paths)) == len(paths) - 2
    folder.rename(node.source / "elsewhere")
    wait_for(lambda: not any(map(node.has, paths)))
    assert node.status()["copies"] == COPIES - len(paths)
