# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The store: what is found at start, what is open, and what the source says of copies."""

from __future__ import annotations

import asyncio
import mmap
import os

import pytest

from tests.support.tiers import make_source
from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.peers.membership import Membership
from tf_malleable.tier.protocol import Identity, MapHead, ProtocolError, ReaderMessage, name_of
from tf_malleable.tier.revalidation import Revalidation, compare
from tf_malleable.tier.service import TierService
from tf_malleable.tier.settings import NodeAddress
from tf_malleable.tier.store import layout
from tf_malleable.tier.store.copy_store import CopyStore
from tf_malleable.tier.store.partial_copy import NotPublishedError, PartialCopy

DATA = b"data" * 1000
# Other users may not enter pytest's folders.
AREA = f"private/{os.geteuid()}"


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "source", {"set/1": DATA, "set/2": DATA, "3": DATA})


@pytest.fixture
def store(tmp_path, source):
    return CopyStore(tmp_path / "store", (source,), 1 << 30, "this boot")


def copied(store, path, area=AREA):
    """Return the key of the copy of a file, as the daemon makes it."""
    key = key_of(area, str(path))
    file = os.open(path, os.O_RDONLY)
    copy = PartialCopy.create(store, key, Identity.of(os.fstat(file)), file)
    os.close(file)
    assert store.take_free(copy.size)
    os.pwrite(copy.part, DATA, 0)
    copy.take(0, next(iter(layout_codes(path))))
    copy.publish(store, 1.0)
    copy.end()
    return key


def layout_codes(path):
    from tf_malleable.tier.store.blocks import checksums_of

    with path.open("rb") as file:
        return list(checksums_of(file.fileno(), len(DATA)))


def test_what_is_in_the_folder_is_what_there_is(tmp_path, store, source):
    key = copied(store, source / "3")
    strange = store.folder / AREA / "strange"
    strange.write_bytes(b"by hand")
    again = CopyStore(store.folder, (source,), 1 << 30, "this boot")
    assert again.keys() == store.keys() == {key: again.get(key).identity.version}
    assert again.used == len(DATA)
    assert not strange.exists()


def test_after_another_boot_nobody_finds_a_copy_before_it_is_compared(store, source):
    good, bad = copied(store, source / "3"), copied(store, source / "set/1")
    with store.path(bad).open("r+b") as file:
        file.write(b"x")
    again = CopyStore(store.folder, (source,), 1 << 30, "another boot")
    assert (len(again), again.unverified) == (0, 2)
    assert not again.path(good).exists()
    assert list(again.verify()) == [good]
    assert again.path(good).read_bytes() == DATA
    assert (len(again), again.unverified, again.path(bad).exists()) == (1, 0, False)


def test_data_sets(store, source):
    datasets = {store.dataset_of(key_of(AREA, str(source / name))) for name in ("set/1", "3")}
    assert datasets == {key_of(AREA, f"{source}/set"), key_of(AREA, str(source))}
    assert store.dataset_of(key_of(AREA, f"{source}/set/deep/x")) in datasets


def test_what_is_open_or_mapped_is_seen(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(DATA)
    assert not layout.is_open(path)
    with path.open("rb") as file:
        assert layout.is_open(path)
        mapped = mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ)
    assert layout.is_open(path)
    mapped.close()
    assert not layout.is_open(path)
    assert not layout.is_open(tmp_path / "none")


def test_an_open_copy_is_not_evicted(tmp_path, source):
    store = CopyStore(tmp_path / "store", (source,), int(2.5 * len(DATA)), "this boot")
    first, second = copied(store, source / "set/1"), copied(store, source / "set/2")
    dropped: list[str] = []
    with store.path(first).open("rb"):
        assert store.reserve(key_of(AREA, str(source / "3")), len(DATA), dropped=dropped.append)
    assert dropped == [second]
    assert not store.reserve(key_of(AREA, str(source / "3")), 10 * len(DATA))
    assert store.get(first) is not None


def test_room_that_is_made_for_one_copy_goes_to_no_other(tmp_path, source):
    store = CopyStore(tmp_path / "store", (source,), 2 * len(DATA), "this boot")
    copied(store, source / "set/1"), copied(store, source / "set/2")
    others: list[bool] = []

    def dropped(_key: str) -> None:
        others.append(store.take_free(len(DATA)))

    assert store.reserve(key_of(AREA, str(source / "3")), len(DATA), dropped=dropped)
    assert others == [False]
    assert store.used == 2 * len(DATA)

    def fails(_keys: object) -> frozenset[str]:
        raise OSError("the loop has ended")

    with pytest.raises(OSError, match="ended"):
        store.reserve(key_of(AREA, str(source / "4")), len(DATA), fails)
    assert store.used == 2 * len(DATA)
    # If there cannot be enough, nothing is kept.
    assert not store.reserve(key_of(AREA, str(source / "3")), 10 * len(DATA))
    assert store.used == 2 * len(DATA)


@pytest.mark.parametrize("change", ["touched", "replaced", "removed", "mode", "none"])
def test_copies_are_compared_with_the_source(store, source, change):
    path = source / "3"
    key = copied(store, path)
    if change == "touched":
        os.utime(path)
    elif change == "replaced":
        other = make_source(source, {"other": DATA}) / "other"
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        os.replace(other, path)
    elif change == "removed":
        path.unlink()
    elif change == "mode":
        path.chmod(0o600)
    assert compare(store, store.kept()) == ([] if change == "none" else [key])


def test_a_source_that_does_not_answer_says_nothing_of_a_file(store, source):
    copied(store, source / "3")

    def fail(path: str) -> os.stat_result:
        raise PermissionError

    assert compare(store, store.kept(), fail) == []


def test_a_source_that_was_mounted_again_has_another_number(store, source):
    key = copied(store, source / "3")
    store.renumber(key, 99)
    assert store.get(key).identity.device == 99
    assert compare(store, store.kept()) == []
    device = os.stat(source / "3").st_dev
    assert store.get(key).identity.device == device
    written = layout.identity_of(store.path(key))
    assert (written.device, written.copy_inode) == (device, store.path(key).stat().st_ino)


def test_copies_are_valid_once_they_have_been_compared(store, source):
    key = copied(store, source / "3")
    (source / "3").unlink()
    service = TierService(store, [source], Counters())
    rechecking = Revalidation(service, staleness=60.0)
    assert not rechecking.is_valid(0.0)
    asyncio.run(rechecking.once())
    assert store.get(key) is None
    assert service.counters.metadata == 1


def test_a_file_that_was_replaced_is_not_published(store, source):
    path = source / "3"
    file = os.open(path, os.O_RDONLY)
    key = key_of(AREA, str(path))
    copy = PartialCopy.create(store, key, Identity.of(os.fstat(file)), file)
    os.replace(source / "set/1", path)
    copy.take(0, 1)
    with pytest.raises(NotPublishedError, match="replaced"):
        copy.publish(store, 1.0)
    copy.end("no")
    os.close(file)
    assert not list((store.folder / "growing" / AREA).iterdir())


def test_the_nodes_are_the_addresses_of_a_name():
    async def run() -> Membership:
        found = Membership("10.0.0.1:7", (), NodeAddress("localhost", 7), lambda node: True)
        task = asyncio.create_task(found.follow())
        while not found.others:
            await asyncio.sleep(0.01)
        task.cancel()
        return found

    found = asyncio.run(run())
    assert "127.0.0.1:7" in found.others
    assert found.live()[-1] == "10.0.0.1:7"


def test_hashes_are_those_of_the_shim():
    # From Noll's page of test vectors: FNV-1a, 128 bits.
    assert name_of("") == "6c62272e07bb014262b821756295c58d"
    assert name_of("a") == "d228cb696f1a8caf78912b704e4a8964"


@pytest.mark.parametrize("size", [0, 1, 4096, 1 << 28, (1 << 28) + 1, 1 << 40])
def test_the_header_of_a_map(tmp_path, size):
    file = tmp_path / "file"
    file.touch()
    os.truncate(file, min(size, 1 << 40))
    identity = Identity.of(file.stat())
    from tf_malleable.tier.protocol import unit_of

    unit = unit_of(size)
    head = MapHead(unit, -(-size // unit), 0, identity)
    assert head.units <= 65536
    assert MapHead.decode(head.encode(False)) == head
    for wrong in (b"", head.encode(False)[1:], bytes(256)):
        with pytest.raises(ProtocolError):
            MapHead.decode(wrong)
    with pytest.raises(ProtocolError, match="units"):
        MapHead.decode(MapHead(unit * 2, head.units + 1, 0, identity).encode(False))


@pytest.mark.parametrize("path", [b"relative", b"/a/../b", b"/a//b", b"/a/./b", b"/a/", b"/a\0b"])
def test_a_message_with_such_a_path_is_refused(path):
    from tf_malleable.tier.protocol import MessageKind, ReaderCounts

    data = ReaderMessage(MessageKind.CLOSED, ReaderCounts(), "").encode()
    assert ReaderMessage.decode(data + b"/a b\n\xff").path == "/a b\n\udcff"
    with pytest.raises(ProtocolError, match="absolute"):
        ReaderMessage.decode(data + path)


def test_no_area_can_evict_what_others_are_entitled_to(tmp_path, source):
    store = CopyStore(tmp_path / "store", (source,), 4 * len(DATA), "this boot")
    for name in ("set/1", "set/2", "3"):
        copied(store, source / name)
    own = [key_of("private/7", f"/a/{number}") for number in range(3)]
    # The first area has more than its half, and gives up one copy, but no more.
    assert store.reserve(own[0], len(DATA))
    assert store.reserve(own[1], len(DATA))
    assert len(store) == 2
    assert not store.reserve(own[2], len(DATA))
    assert len(store) == 2
    assert not store.reserve(own[2], 4 * len(DATA))
    assert len(store) == 2


def test_a_copy_that_is_published_takes_its_room_once(tmp_path, source):
    store = CopyStore(tmp_path / "store", (source,), 2 * len(DATA), "this boot")
    copied(store, source / "set/1")
    assert store.used == len(DATA)
    assert store.take_free(len(DATA))
    assert not store.take_free(1)
