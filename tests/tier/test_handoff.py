# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Small files that readers hand over in memory, and what the daemon makes of them."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
import threading

import pytest

from tests.support.controllers import wait_for
from tests.support.tiers import make_source, one_node, run_through
from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.peers.location_records import Location
from tf_malleable.tier.protocol import (
    Identity,
    MessageKind,
    ProtocolError,
    ReaderCounts,
    ReaderMessage,
)
from tf_malleable.tier.readers import handoff
from tf_malleable.tier.readers.handoff import Handoff
from tf_malleable.tier.readers.lookup import Lookup
from tf_malleable.tier.readers.reader_events import ReaderEvents
from tf_malleable.tier.readers.reader_queue import HandedFile, ReaderQueue
from tf_malleable.tier.readers.reader_server import ReaderServer
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store.copy_store import CopyStore
from tf_malleable.tier.store.tenancy import private_area

DATA = os.urandom(12_000)
READ = "import os, signal, subprocess, sys\nfor path in sys.argv[1:]:\n open(path, 'rb').read()\n"
UID = os.geteuid()


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "source", {f"set/{number:04}": DATA for number in range(600)})


def read(node, paths, more="", **options):
    done = run_through(node, sys.executable, "-c", READ + more, *map(str, paths), **options)
    return done.returncode


@pytest.mark.slow
def test_while_the_daemon_hangs_what_fits_is_kept_for_it(tmp_path, source):
    paths = sorted((source / "set").iterdir())
    with one_node(tmp_path, source) as node:
        assert read(node, paths[:1]) == 0
        wait_for(lambda: node.has(paths[0]))
        node.stop()
        assert read(node, paths[1:], "for path in sys.argv[1:]:\n open(path, 'rb').read()\n") == 0
        node.go_on()
        # 4 MiB are some 340 files; a second time they are handed over only if there is room.
        wait_for(lambda: node.status()["copies"] > 300)
        for path in paths:
            assert not node.has(path) or node.copy(path).read_bytes() == DATA


@pytest.mark.slow
def test_what_a_reader_had_handed_over_when_it_was_killed_is_kept(tmp_path, source):
    paths = sorted((source / "set").iterdir())[:100]
    with one_node(tmp_path, source) as node:
        node_hangs_while_it_reads = f"os.kill({node.process.pid}, signal.SIGSTOP)\n"
        code = node_hangs_while_it_reads + READ.partition("\n")[2] + "os.kill(os.getpid(), 9)"
        assert read(node, paths, code) == -9
        node.go_on()
        wait_for(lambda: node.status()["copies"] == len(paths))
        assert all(node.copy(path).read_bytes() == DATA for path in paths)


@pytest.mark.slow
def test_what_was_handed_over_and_then_changed_by_another_program_is_dropped(tmp_path, source):
    path, marker = source / "set/0000", source / "set/0001"
    with one_node(tmp_path, source) as node:
        # All of it is handed over while the daemon hears nothing.
        code = (
            "subprocess.run(['sh', '-c', 'printf new > \"$0\"', sys.argv[1]], check=True)\n"
            "open(sys.argv[2], 'rb').read()\n"
        )
        node.stop()
        assert read(node, [path, marker], code) == 0
        node.go_on()
        wait_for(lambda: node.has(marker))
        wait_for(lambda: not node.has(path))
        assert run_through(node, "cat", str(path)).stdout == "new"


@pytest.mark.slow
def test_a_folder_that_went_with_its_copies_is_made_again(tmp_path, source):
    path = source / "set/0000"
    with one_node(tmp_path, source) as node:
        for _ in range(2):
            assert read(node, [path]) == 0
            wait_for(lambda: node.has(path))
            assert node.tfm("drop").returncode == 0
            for folder in node.copy(path).parents:
                if not any(folder.iterdir()) and folder.name != str(UID):
                    folder.rmdir()


class FakeQueue:
    """Has what a test says."""

    def __init__(self, *taken: list[HandedFile] | Exception):
        self.taken = list(taken)
        self.is_closed = False

    def take(self) -> list[HandedFile]:
        if not self.taken:
            return []
        found = self.taken.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    def rest(self) -> bool:
        return not self.taken

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def take(tmp_path, source, monkeypatch):
    """Return what makes copies of what is in a queue, to its end."""

    def take(queue, capacity=1 << 30):
        monkeypatch.setattr(handoff, "ReaderQueue", lambda *_: queue)

        async def run():
            store = CopyStore(tmp_path / "store", (source,), capacity, "this boot")
            service = TierService(store, (source,), Counters())
            found = Handoff(service, (source,))
            seen = []
            found.follow(-1, seen.append).end()
            while not queue.is_closed or store.free < 0:
                await asyncio.sleep(0.005)
            return service, found, seen

        return asyncio.run(asyncio.wait_for(run(), 30))

    return take


def taken_of(path, error=0):
    return HandedFile(error, str(path), Identity.of(path.stat()))


def test_what_was_taken_counts_as_a_copy(take, source):
    path = source / "set/0000"
    service, _, seen = take(FakeQueue([taken_of(path)]))
    assert list(service.store.keys()) == [key_of(private_area(UID), str(path))]
    assert service.store.used == len(DATA)
    assert [each.path for each in seen] == [str(path)]


def test_what_is_too_much_goes_again(take, source):
    paths = [source / f"set/{number:04}" for number in range(3)]
    service, _, _ = take(FakeQueue([taken_of(each) for each in paths]), len(DATA) + 1)
    assert len(service.store) == 1


def test_a_full_disk_is_noticed(take, source):
    service, found, seen = take(FakeQueue([taken_of(source / "set/0000", errno.ENOSPC)]))
    assert "No space" in service.problem
    assert (len(service.store), len(seen), found.is_supported) == (0, 1, True)


def test_what_was_taken_back_is_no_fault(take, source):
    service, _, _ = take(FakeQueue([taken_of(source / "set/0000", errno.ECANCELED)]))
    assert (service.problem, service.counters.unpublished, len(service.store)) == ("", 0, 0)


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.ECANCELED])
def test_of_what_becomes_no_copy_the_claim_is_given_back(tmp_path, source, monkeypatch, error):
    path = source / "set/0000"
    key = key_of(private_area(UID), str(path))
    released = []

    class FakeDirectory:
        async def ask(self, key, version):
            return Location(True)

        def release(self, key):
            released.append(key)

        def hold(self, versions):
            assert versions == {}

    queue = FakeQueue([taken_of(path, error)])
    monkeypatch.setattr(handoff, "ReaderQueue", lambda *_: queue)

    async def run():
        store = CopyStore(tmp_path / "store", (source,), 1 << 30, "this boot")
        service = TierService(store, (source,), Counters())
        service.directory = FakeDirectory()
        asking = Lookup(service, False)
        server = ReaderServer(
            ReaderEvents(service, False),
            asking,
            service.counters,
            taking=Handoff(service, (source,)),
        )
        server.start(tmp_path / "socket", 0o600)
        answer, pipe = os.pipe()
        asking.ask(str(path), UID, pipe)
        while not asking.has_claimed(key):
            await asyncio.sleep(0.005)
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as reader:
            reader.connect(str(tmp_path / "socket"))
            memory = os.memfd_create("queue")
            message = ReaderMessage(MessageKind.QUEUE, ReaderCounts(), "")
            socket.send_fds(reader, [message.encode()], [memory])
            os.close(memory)
            while queue.taken:
                await asyncio.sleep(0.005)
        while not queue.is_closed:
            await asyncio.sleep(0.005)
        server.stop()
        os.close(answer)
        assert not asking.has_claimed(key)

    asyncio.run(asyncio.wait_for(run(), 30))
    assert released == [key]


def test_a_file_system_without_unnamed_files_is_noticed(take, source):
    _, found, _ = take(FakeQueue([taken_of(source / "set/0000", errno.EOPNOTSUPP)]))
    assert not found.is_supported


def test_a_queue_with_nonsense_is_closed(take, source):
    path = source / "set/0000"
    service, _, _ = take(FakeQueue([taken_of(path)], ProtocolError("nonsense")))
    assert len(service.store) == 1


def test_at_its_end_the_tier_unmaps_no_queue_that_is_being_taken_from(
    tmp_path, source, monkeypatch
):
    begun, may_end = threading.Event(), threading.Event()

    class SlowQueue(FakeQueue):
        is_taking = was_closed_meanwhile = False

        def take(self):
            self.is_taking = True
            begun.set()
            may_end.wait(30)
            self.is_taking = False
            return []

        def close(self):
            self.was_closed_meanwhile = self.is_taking
            super().close()

    queue = SlowQueue()
    monkeypatch.setattr(handoff, "ReaderQueue", lambda *_: queue)

    async def run():
        store = CopyStore(tmp_path / "store", (source,), 1 << 30, "this boot")
        Handoff(TierService(store, (source,), Counters()), (source,)).follow(-1, print)
        while not begun.is_set():
            await asyncio.sleep(0.005)

    asyncio.run(asyncio.wait_for(run(), 30))  # Cancels what still runs.
    may_end.set()
    wait_for(lambda: queue.is_closed)
    assert not queue.was_closed_meanwhile


@pytest.mark.parametrize("size", [0, 4096, (4 << 20) + 4096])
def test_only_what_cannot_shrink_is_a_queue(tmp_path, size):
    file = os.memfd_create("queue")
    os.ftruncate(file, size)
    with pytest.raises(ProtocolError, match="queue"):
        ReaderQueue(file, tmp_path, tmp_path, ["/source"])
    os.close(file)
