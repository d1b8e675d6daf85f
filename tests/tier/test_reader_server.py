# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What readers say, and what the daemon makes of it: a real one, and a reader that speaks as
the shim does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.tier_reader import ReadFile, TierReader
from tests.support.tiers import make_source, nodes, one_node, settle
from tf_malleable.tier.protocol import Identity, MapHead, MessageKind, unit_of
from tf_malleable.tier.store import layout

pytestmark = pytest.mark.slow
BIG = os.urandom((3 << 20) + 12345)
SMALL = b"a small file"


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "source", {"big": BIG, "small": SMALL, "sub/other": SMALL})


@pytest.fixture
def node(tmp_path, source):
    with one_node(tmp_path, source) as found:
        yield found


@pytest.fixture
def reader(node):
    found = TierReader(node)
    yield found
    found.close()


def test_a_small_file_that_was_read_whole_is_published(node, reader, source):
    path = source / "small"
    reader.whole(path)
    wait_for(lambda: node.has(path))
    copy = node.copy(path)
    assert copy.read_bytes() == SMALL
    identity = layout.identity_of(copy)
    assert identity.is_same(os.stat(path))
    assert identity.copy_inode == os.stat(copy).st_ino
    assert layout.codes_of(copy, len(SMALL)) is not None


def test_a_small_file_that_several_readers_have_read_takes_its_room_once(node, reader, source):
    for _ in range(20):
        reader.whole(source / "small")
    wait_for(lambda: node.has(source / "small"))
    reader.whole(source / "sub/other")
    wait_for(lambda: node.has(source / "sub/other"))
    assert node.status()["used"] == 2 * len(SMALL)


def test_a_large_file_is_published_once_it_is_full(node, reader, source):
    path = source / "big"
    file = ReadFile(reader, path)
    middle = 1 << 20
    growing = node.store / "growing" / "private" / str(os.geteuid())
    file.read(middle, len(BIG))
    wait_for(lambda: list(growing.glob("*.part")))
    assert not node.has(path)
    file.read(0, middle)
    wait_for(lambda: node.has(path))
    assert node.copy(path).read_bytes() == BIG
    wait_for(lambda: not list(growing.iterdir()))
    # The daemon has read nothing from the source that the reader had not.
    assert node.counted("source_bytes") == 0


def test_what_several_readers_read_makes_one_copy(node, source):
    one, two = TierReader(node), TierReader(node)
    files = [ReadFile(each, source / "big") for each in (one, two)]
    files[0].read(0, 1 << 20)
    files[1].read(2 << 20, len(BIG))
    # Half of a block by each of them.
    files[0].read(1 << 20, 3 << 19)
    one.close()
    files[1].read(3 << 19, 2 << 20)
    wait_for(lambda: node.has(source / "big"))
    assert node.copy(source / "big").read_bytes() == BIG
    assert node.counted("source_bytes") == 0


def test_a_reader_that_has_a_file_open_twice(node, reader, source):
    one, two = ReadFile(reader, source / "big"), ReadFile(reader, source / "big")
    one.read(0, 1 << 20)
    one.end()
    two.read(1 << 20, len(BIG))
    wait_for(lambda: node.has(source / "big"))
    two.end()
    assert node.counted("source_bytes") == 0


@pytest.mark.parametrize("how", ["closed", "killed"])
def test_a_reader_that_stops_early(node, reader, source, how):
    file = ReadFile(reader, source / "big")
    file.read(0, 1 << 20)
    if how == "closed":
        file.end()
    else:
        reader.close()
    wait_for(lambda: node.counted("unpublished") == 1)
    assert not node.has(source / "big")
    assert node.status()["used"] == 0


def test_the_daemon_reads_the_rest_of_what_was_nearly_read(node, reader, source):
    file = ReadFile(reader, source / "big")
    file.read(1 << 20, 3 << 20)
    wait_for(lambda: node.status()["growing"])
    file.end()
    wait_for(lambda: node.has(source / "big"))
    assert node.copy(source / "big").read_bytes() == BIG


def test_a_file_that_was_read_with_gaps_is_copied(node, reader, source):
    file = ReadFile(reader, source / "big")
    for begin in range(0, len(BIG), 1 << 18):
        file.read(begin, min(len(BIG), begin + (1 << 18) - file.unit))
    wait_for(lambda: node.status()["growing"])
    file.end()
    wait_for(lambda: node.has(source / "big"))
    assert node.copy(source / "big").read_bytes() == BIG


def test_what_is_read_unseen_is_copied_by_the_daemon(node, reader, source):
    ReadFile(reader, source / "big")
    reader.say(MessageKind.UNSEEN, source / "big")
    wait_for(lambda: node.has(source / "big"))
    assert node.copy(source / "big").read_bytes() == BIG
    reader.whole(source / "small", MessageKind.UNSEEN)
    wait_for(lambda: node.has(source / "small"))


def test_a_file_that_was_replaced_is_not_published_under_its_name(node, reader, source):
    path = source / "big"
    file = ReadFile(reader, path)
    # Otherwise it would be refused as a file that was changed before.
    wait_for(lambda: node.status()["growing"])
    new = source / "new"
    new.write_bytes(BIG[::-1])
    settle(new)
    os.replace(new, path)
    file.read(0, len(BIG))
    wait_for(lambda: node.counted("unpublished") == 1)
    assert not node.has(path)


def test_a_file_that_was_cut_off_while_it_was_read(node, reader, source):
    path = source / "big"
    ReadFile(reader, path)
    wait_for(lambda: node.status()["growing"])
    os.truncate(path, 1000)
    reader.say(MessageKind.UNSEEN, path)
    wait_for(lambda: node.counted("unpublished") == 1)
    assert not node.has(path)


def test_a_file_that_was_just_modified_is_not_copied(node, reader, source):
    path = source / "new"
    path.write_bytes(SMALL)
    reader.whole(path)
    reader.whole(source / "small")
    wait_for(lambda: node.has(source / "small"))
    assert not node.has(path)
    assert "less than 10 s ago" in node.tfm("why", path).stdout


def test_a_file_outside_the_source_is_not_copied(node, reader, tmp_path, source):
    outside = tmp_path / "outside"
    outside.write_bytes(SMALL)
    settle(outside)
    reader.whole(outside)
    reader.whole(source / "small")
    wait_for(lambda: node.has(source / "small"))
    assert not node.has(outside)
    assert node.tfm("why", outside).returncode == 1


def test_nonsense_is_no_reason_to_stop(node, reader, source):
    path = source / "small"
    reader.socket.send(b"x")
    reader.socket.send(b"y" * 5000)
    with path.open("rb") as opened, (source / "big").open("rb") as big:
        number = opened.fileno()
        for kind in MessageKind:
            for count in range(4):
                reader.say(kind, path, *[number] * count)
            identity = Identity.of(os.fstat(big.fileno()))
            reader.say(kind, path, number, identity=identity)
            reader.say(kind, path, big.fileno(), identity=identity)
        reader.say(MessageKind.UNSEEN, source / ".." / "x", number)
        read, written = os.pipe()
        reader.say(MessageKind.READING, path, number, read)
        os.close(read)
        os.close(written)
    reader.whole(source / "sub" / "other")
    wait_for(lambda: node.has(source / "sub" / "other"))
    assert len(os.listdir(f"/proc/{node.process.pid}/fd")) < 60


@pytest.mark.parametrize("kind", [MessageKind.READING, MessageKind.WHOLE, MessageKind.UNSEEN])
def test_a_reader_may_hand_over_only_what_is_named(node, reader, source, tmp_path, kind):
    """Nothing else is copied, marked or changed, whoever owns it."""
    secret = tmp_path / "secret"
    secret.write_bytes(BIG)
    settle(secret)
    secret.chmod(0o4755)
    before = (secret.stat().st_mode, secret.stat().st_ctime_ns, os.listxattr(secret))
    path = source / "big"
    with secret.open("rb") as opened:
        identity = Identity.of(os.fstat(opened.fileno()))
        growth = os.memfd_create("map")
        unit = unit_of(len(BIG))
        head = MapHead(unit, -(-len(BIG) // unit), 0, identity)
        os.pwrite(growth, head.encode(False) + b"\x01" * head.units, 0)
        descriptors = (
            [opened.fileno(), growth] if kind is MessageKind.READING else [opened.fileno()]
        )
        reader.say(kind, path, *descriptors, identity=identity)
    reader.whole(source / "small")
    wait_for(lambda: node.has(source / "small"))
    wait_for(lambda: not node.status()["growing"])
    assert not node.has(path)
    assert not [each for each in node.store.rglob("*") if each.is_file() and each.samefile(secret)]
    assert (secret.stat().st_mode, secret.stat().st_ctime_ns, os.listxattr(secret)) == before


def test_a_copy_of_what_was_changed_goes_with_the_next_comparison(node, source):
    path = source / "small"
    node.warm(path)
    wait_for(lambda: node.has(path))
    path.write_bytes(b"another small file")
    assert "changed since it was copied" in node.tfm("why", path).stdout


def test_what_a_reader_counts_is_added_up(node, reader, source):
    reader.counts = type(reader.counts)(copy_opens=2, copy_bytes=10)
    reader.say(MessageKind.COUNTS, source / "small")
    reader.counts = type(reader.counts)(copy_opens=5, copy_bytes=30)
    reader.say(MessageKind.COUNTS, source / "small")
    wait_for(lambda: node.counted("copy_opens") == 5)
    assert node.counted("copy_bytes") == 30


def test_a_reader_that_asks_gets_what_another_node_has(tmp_path, source):
    with nodes(tmp_path, source, 2) as (a, b):
        one, two = TierReader(a), TierReader(b)
        assert one.ask(source / "small") == "S"
        one.whole(source / "small")
        wait_for(lambda: a.has(source / "small"))
        assert two.ask(source / "small").lstrip("W") == "C"
        assert b.copy(source / "small").read_bytes() == SMALL
        assert layout.identity_of(b.copy(source / "small")).is_same(os.stat(source / "small"))
        assert two.ask(source / "small") == "C"


def test_a_reader_that_asks_follows_what_grows_at_another_node(tmp_path, source):
    path = source / "big"
    with nodes(tmp_path, source, 2) as (a, b):
        one, two = TierReader(a), TierReader(b)
        assert one.ask(path) == "S"
        file = ReadFile(one, path)
        file.read(0, 1 << 20)
        # For a reader that has only asked, another one waits for no more than a moment.
        wait_for(lambda: a.status()["growing"])
        assert two.ask(path).lstrip("W") == "F"
        assert b.status()["growing"] == 1
        file.read(1 << 20, len(BIG))
        wait_for(lambda: b.has(path))
        assert b.copy(path).read_bytes() == BIG
        assert b.counted("peer_bytes") == len(BIG)


def test_nobody_waits_for_a_copy_that_its_reader_does_not_make(tmp_path):
    source = make_source(tmp_path / "source", {f"{number}": BIG for number in range(8)})
    with nodes(tmp_path, source, 2) as (a, b):
        one, two = TierReader(a), TierReader(b)

        def is_free(path: Path) -> bool:
            assert one.ask(path) == "S"
            one.say(MessageKind.CLOSED, path)
            # The home hears of it within half a second, if the machine is not too busy.
            time.sleep(1.0)
            # Only the first question tells: by the second one, this node has the claim.
            return two.ask(path) == "S"

        assert any(map(is_free, source.iterdir()))


def test_a_copy_for_which_there_is_no_room_passes(tmp_path, source):
    path = source / "big"
    with nodes(tmp_path, source, 2) as (a, b):
        b.kill()
        b.options += ("--capacity", "2M")
        b.start()
        a.warm(path)
        reader = TierReader(b)

        def read_copy() -> bytes | None:
            # On a busy machine, the other node answers too late.
            if reader.ask(path).lstrip("W") not in ("C", "F"):
                return None
            try:
                return b.copy(path).read_bytes()
            except FileNotFoundError:  # Nor is it there yet, or has passed.
                return None

        assert wait_for(read_copy) == BIG
        wait_for(lambda: not b.has(path))
        assert b.status()["used"] == 0
        assert b.counted("source_bytes") == 0


def test_a_state_says_that_the_daemon_lives(node):
    state = node.socket.with_name("s.state")

    def valid_until() -> float:
        return int.from_bytes(state.read_bytes()[16:24], "little") / 1e9

    wait_for(lambda: valid_until() > time.clock_gettime(time.CLOCK_BOOTTIME) + 1)
    node.process.terminate()
    node.process.wait(DEADLINE)
    assert valid_until() == 0
    assert not node.socket.exists()
