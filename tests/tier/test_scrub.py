# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Bit rot of a copy: found within the period of the scrub, on the disk and not in the cache."""

from __future__ import annotations

import asyncio
import errno
import os
import subprocess

import pytest

from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.tiers import SCRUB_SECONDS, make_source, one_node
from tf_malleable.tier import scrub
from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store.copy_store import CopyStore

BIG = os.urandom((3 << 20) + 12345)
FILES = {"big": BIG, "small": b"a small file", "page": os.urandom(4096), "empty": b""}


@pytest.fixture
def source(tmp_path):
    return make_source(tmp_path / "source", FILES)


def flip(path, place: int) -> None:
    """Change a bit of a file, but not when it was modified, as a disk does."""
    with path.open("r+b") as file:
        about = os.stat(file.fileno())
        file.seek(place)
        byte = file.read(1)[0]
        file.seek(place)
        file.write(bytes([byte ^ 4]))
        file.flush()
        os.fsync(file.fileno())
        # By the descriptor, as the path may have been dropped already.
        os.utime(file.fileno(), ns=(about.st_atime_ns, about.st_mtime_ns))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "place"), [("big", 2_000_000), ("big", len(BIG) - 1), ("small", 3)]
)
def test_a_copy_that_rots_is_dropped_before_anybody_checks(tmp_path, source, name, place):
    with one_node(tmp_path, source, "--scrub", "1s") as node:
        node.warm(source)
        twice = 2 * sum(map(len, FILES.values()))
        wait_for(lambda: node.counted("scrubbed_bytes") > twice, SCRUB_SECONDS)
        assert node.counted("rotten") == 0
        flip(node.copy(source / name), place)
        wait_for(lambda: not node.has(source / name), SCRUB_SECONDS)
        assert node.counted("rotten") == 1
        assert node.status()["copies"] == len(FILES) - 1
        assert "has rotted" in node.log.read_text()
        node.warm(source / name)
        assert node.copy(source / name).read_bytes() == FILES[name]


@pytest.fixture
def disk(tmp_path):
    """Mount an image as the disk of the store; return the image."""
    image, store = tmp_path / "image", tmp_path / "node" / "store"
    store.mkdir(parents=True)
    with image.open("wb") as file:
        file.truncate(64 << 20)
    for words in (["mkfs.ext4", "-q", image], ["mount", "-o", "loop", image, store]):
        try:
            subprocess.run(words, check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pytest.skip("needs root, mkfs.ext4 and loop devices")
    yield image
    subprocess.run(["umount", "-l", store], check=True)


@pytest.mark.slow
def test_what_rots_on_the_disk_is_found_under_a_cache_that_is_good(tmp_path, source, disk):
    with one_node(tmp_path, source, "--scrub", "1s", "--capacity", "32M") as node:
        node.warm(source)
        os.sync()
        copy = node.copy(source / "big")
        assert copy.read_bytes() == BIG
        flip(disk, disk.read_bytes().index(BIG[1 << 20 :][:4096]))
        wait_for(lambda: not copy.exists(), SCRUB_SECONDS)
        assert node.counted("rotten") == 1


def service_with(tmp_path, source) -> TierService:
    store = CopyStore(tmp_path / "store", (source,), 1 << 30, "this boot")
    return TierService(store, (source,), Counters())


def test_a_store_without_copies_is_looked_at_again(tmp_path, source):
    async def run() -> None:
        await scrub.Scrub(service_with(tmp_path, source), 0.01).once()

    asyncio.run(asyncio.wait_for(run(), DEADLINE))


@pytest.mark.slow
def test_a_daemon_ends_while_it_scrubs(tmp_path, source):
    with one_node(tmp_path, source, "--scrub", "90d") as node:
        node.warm(source)
        wait_for(lambda: node.counted("scrubbed_bytes") == 0 and node.has(source / "big"))
        node.kill()
        node.start()  # With a copy that takes it a month or more.
        wait_for(lambda: node.status()["copies"] == len(FILES))
        node.process.terminate()
        node.process.wait(DEADLINE)


@pytest.mark.parametrize(
    ("error", "is_rotten"),
    [(errno.EIO, True), (errno.ENOENT, False), (errno.EMFILE, False), (errno.EBADMSG, True)],
)
def test_an_error_is_rot_only_if_it_is_of_the_disk(tmp_path, monkeypatch, error, is_rotten):
    def fail(path):
        raise OSError(error, os.strerror(error))

    monkeypatch.setattr(scrub, "_open", fail)
    assert scrub.is_rotten_at(tmp_path / "copy") is is_rotten


def test_a_copy_that_its_owner_has_dropped_is_not_rotten(tmp_path):
    copy = tmp_path / "copy"
    copy.write_bytes(BIG)
    assert not scrub.is_rotten_at(copy)
    assert not scrub.is_rotten_at(tmp_path / "none")
