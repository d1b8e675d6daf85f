# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What readers hand over: descriptors of every kind with every message, to a real daemon.

It goes on, says nothing that is not a sentence, keeps none of them, and waits for none.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.fuse_source import FuseSource, mounted
from tests.support.tier_reader import ReadFile, TierReader
from tests.support.tiers import TierNode, make_source, one_node
from tf_malleable.tier.protocol import Identity, MessageKind, ReaderCounts, ReaderMessage

pytestmark = pytest.mark.slow
SMALL = b"a small file"


def fill(end: socket.socket) -> None:
    """Send until no more fits."""
    with suppress(BlockingIOError):
        while True:
            end.send(bytes(4096))


def _linger(stack: ExitStack) -> int:
    """Return a TCP socket with bytes that nobody reads, for which close(2) waits a day."""
    server = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
    client = socket.create_connection(server.getsockname())
    accepted, _ = server.accept()
    accepted.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2304)
    stack.enter_context(accepted)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 86400))
    client.setblocking(False)
    fill(client)
    return client.detach()


def _of(descriptor: int, *others: int) -> Callable[[ExitStack], int]:
    def make(stack: ExitStack) -> int:
        for each in others:
            stack.callback(os.close, each)
        return descriptor

    return make


def _pair(kind: int) -> Callable[[ExitStack], int]:
    def make(stack: ExitStack) -> int:
        mine, theirs = socket.socketpair(socket.AF_UNIX, kind)
        stack.enter_context(mine)
        return theirs.detach()

    return make


def _pipe(end: int, is_full: bool = False) -> Callable[[ExitStack], int]:
    def make(stack: ExitStack) -> int:
        ends = os.pipe()
        if is_full:
            os.set_blocking(ends[1], False)
            with suppress(BlockingIOError):
                while True:
                    os.write(ends[1], bytes(4096))
            os.set_blocking(ends[1], True)
        stack.callback(os.close, ends[1 - end])
        return ends[end]

    return make


def _open(path: str, flags: int) -> Callable[[ExitStack], int]:
    return lambda stack: os.open(path, flags)


KINDS: dict[str, Callable[[ExitStack], int]] = {
    "path": _open("/etc/passwd", os.O_PATH),
    "path of a folder": _open("/", os.O_PATH),
    "folder": _open("/", os.O_RDONLY | os.O_DIRECTORY),
    "device": _open("/dev/zero", os.O_RDWR),
    "memory of a process": _open("/proc/self/mem", os.O_RDWR),
    "file of /proc": _open("/proc/self/status", os.O_RDONLY),
    "file of /sys": _open("/sys/kernel/uevent_seqnum", os.O_RDONLY),
    "file for reading": _open("/etc/passwd", os.O_RDONLY),
    "file for writing": lambda stack: os.open("/tmp", os.O_TMPFILE | os.O_WRONLY, 0o600),
    "file for both": lambda stack: os.open("/tmp", os.O_TMPFILE | os.O_RDWR, 0o600),
    "memfd": lambda stack: os.memfd_create("x"),
    "epoll": lambda stack: os.dup(stack.enter_context(select.epoll()).fileno()),
    "signals": lambda stack: _signals(),
    "pidfd": lambda stack: os.pidfd_open(os.getpid()),
    "terminal": lambda stack: _terminal(stack),
    "pipe": _pipe(1),
    "pipe to read": _pipe(0),
    "pipe that is full": _pipe(1, is_full=True),
    "stream pair": _pair(socket.SOCK_STREAM),
    "datagram pair": _pair(socket.SOCK_DGRAM),
    "packet pair": _pair(socket.SOCK_SEQPACKET),
    "unconnected": lambda stack: socket.socket(socket.AF_UNIX).detach(),
    "udp": lambda stack: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).detach(),
    "netlink": lambda stack: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).detach(),
}


def _signals() -> int:
    import ctypes

    mask = ctypes.create_string_buffer(128)
    ctypes.CDLL(None).sigemptyset(mask)
    return int(ctypes.CDLL(None).signalfd(-1, mask, 0))


def _terminal(stack: ExitStack) -> int:
    mine, theirs = os.openpty()
    stack.callback(os.close, mine)
    return theirs


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TierNode]:
    folder = tmp_path_factory.mktemp("tier")
    source = make_source(folder / "source", {f"{number}": SMALL for number in range(1000)})
    with one_node(folder, source) as found:
        yield found


@contextmanager
def unharmed(node: TierNode) -> Iterator[TierReader]:
    """Check that the daemon takes a file afterwards, has kept nothing, and has complained well."""
    folder = f"/proc/{node.process.pid}/fd"
    before = len(os.listdir(folder))
    reader = TierReader(node)
    try:
        yield reader
        # Not the file that the messages are about: one may say that it was changed.
        names = sorted(node.source.iterdir())[1:]
        path = next(each for each in names if not node.has(each))
        other = TierReader(node)
        other.whole(path)
        wait_for(lambda: node.has(path))
        assert node.copy(path).read_bytes() == SMALL
        other.close()
    finally:
        reader.close()
    # Those of pools and of accepted requests come and go.
    wait_for(lambda: len(os.listdir(folder)) <= before + 3)
    assert "Traceback" not in node.log.read_text()
    assert "Error" not in node.log.read_text()


def hand_over(
    reader: TierReader, message: MessageKind, kinds: list[str], has_identity: bool = True
) -> None:
    """Send a message with such descriptors, and close them here."""
    path = reader.node.source / "0"
    identity = Identity.of(os.stat(path)) if has_identity else None
    with ExitStack() as stack:
        made = [KINDS[kind](stack) for kind in kinds]
        reader.say(message, path, *made, identity=identity)
        for each in made:
            os.close(each)


@pytest.mark.parametrize("kind", KINDS)
def test_any_descriptor_with_any_message(node, kind):
    with unharmed(node) as reader:
        for message in MessageKind:
            for count in range(1, 4):
                hand_over(reader, message, [kind] * count)


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    said=st.lists(
        st.tuples(
            st.sampled_from(MessageKind),
            st.lists(st.sampled_from(sorted(KINDS)), max_size=4),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_any_descriptors_in_any_order(node, said):
    with unharmed(node) as reader:
        for message, kinds, has_identity in said:
            hand_over(reader, message, kinds, has_identity)


def test_descriptors_without_a_message(node):
    with unharmed(node), open("/etc/passwd", "rb") as file:
        for _ in range(10):
            with TierReader(node).socket as other:
                socket.send_fds(other, [b""], [file.fileno()] * 3)
                assert other.recv(1) == b""  # It hangs up.


def test_more_descriptors_than_belong_to_any_message(node):
    with unharmed(node) as reader, open("/etc/passwd", "rb") as file:
        message = ReaderMessage(MessageKind.ASK, ReaderCounts(), str(node.source / "0"))
        socket.send_fds(reader.socket, [message.encode()], [file.fileno()] * 100)


def test_a_message_that_is_cut_off_is_not_of_another_file(node):
    with unharmed(node) as reader:
        ReadFile(reader, node.source / "999")
        wait_for(lambda: node.status()["growing"])
        data = ReaderMessage(MessageKind.CLOSED, ReaderCounts(), "/" + "x" * 5000).encode()
        reader.socket.send(data)


@pytest.mark.parametrize("is_blocking", [True, False])
def test_a_question_whose_socket_is_full(node, is_blocking):
    """The flags of the socket are the reader's, too: it may take O_NONBLOCK away at any time."""
    with unharmed(node) as reader:
        mine, theirs = socket.socketpair()
        theirs.setblocking(False)
        with mine, theirs:
            fill(theirs)
            theirs.setblocking(is_blocking)
            for _ in range(3):
                reader.say(MessageKind.ASK, node.source / "2", theirs.fileno())


def test_a_pipe_that_turns_blocking_again(node):
    """As a reader did that had the daemon block for ever in a write to a pipe."""
    with unharmed(node) as reader, ExitStack() as stack:
        full = KINDS["pipe that is full"](stack)
        stack.callback(os.close, full)
        child = os.fork()
        if not child:  # It takes the flag away again as fast as it can.
            while True:
                fcntl.fcntl(full, fcntl.F_SETFL, 0)
        try:
            os.set_blocking(full, False)
            wait_for(lambda: os.get_blocking(full))
            for _ in range(200):
                reader.say(MessageKind.ASK, node.source / "3", full)
        finally:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def test_a_descriptor_whose_close_takes_a_day_delays_nobody(node):
    with unharmed(node), ExitStack() as stack:
        readers = [TierReader(node) for _ in range(3)]
        node.stop()  # So that it is the last one to close the descriptor: only that takes long.
        for reader in readers:
            lingers = _linger(stack)
            reader.say(MessageKind.ASK, node.source / "4", lingers)
            os.close(lingers)
        node.go_on()
        other = TierReader(node)
        assert other.ask(node.source / "4") == "S"
        for reader in (other, *readers):
            reader.close()


@pytest.mark.parametrize("kind", [MessageKind.WHOLE, MessageKind.UNSEEN])
def test_a_file_that_its_own_file_system_does_not_let_be_closed(node, tmp_path, kind):
    """Each close(2) of a FUSE file waits for its server, here a hostile user's."""
    served = FuseSource({"file": SMALL})
    with mounted(served, tmp_path), unharmed(node) as reader:
        path = node.source / "5"
        own = os.open(tmp_path / "file", os.O_RDONLY)
        served.may_close.clear()
        reader.say(kind, path, own, identity=Identity.of(os.fstat(own)))
        try:
            assert served.is_closing.wait(DEADLINE)
            other = TierReader(node)
            other.whole(node.source / "6")
            wait_for(lambda: node.has(node.source / "6"))
            assert other.ask(node.source / "7") == "S"
            other.close()
        finally:
            served.may_close.set()
            os.close(own)
