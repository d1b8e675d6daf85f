# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The capacity of a store bounds what is allocated in it, and no user takes all of it."""

from __future__ import annotations

import os
import time

import pytest

from tests.support.controllers import wait_for
from tests.support.tier_machine import DATA, HOSTILE, OTHER, READER, daemon
from tests.support.tiers import read_until, settle

TMPFS = 400 << 20
CAPACITY = 20 << 20


@pytest.fixture
def small_disk(machine):
    """Root's tier with little room, on a disk of its own, of which more is free."""
    store = machine.folder("/var/cache/disk")
    mount = ["mount", "-t", "tmpfs", "-o", f"size={TMPFS}", "tmpfs", store]
    assert machine.run(0, *mount).returncode == 0
    with daemon(machine, "--shared", "--capacity", "20M", store=f"{store}/store") as found:
        yield found


def sparse(machine, name: str, uid: int, size: int) -> str:
    """Make a file that takes no room in the source."""
    path = machine.file(f"{DATA}/{name}", b"", uid, 0o600)
    os.truncate(machine.path(path), size)
    settle(machine.path(path))
    return path


def room_of(machine, folder: str) -> int:
    about = os.statvfs(machine.path(folder))
    return (about.f_blocks - about.f_bfree) * about.f_frsize


def test_files_that_are_open_take_no_more_than_the_capacity(machine, small_disk):
    machine.read(OTHER, machine.file(f"{DATA}/first", b"x", OTHER, 0o600))
    paths = [sparse(machine, f"own/{number}", OTHER, 16 << 20) for number in range(10)]
    with machine.reader(OTHER) as reader:
        taken = []
        for path in paths:
            read_until(
                lambda path=path: small_disk.has_open(path),
                lambda path=path: reader.call(
                    f"len(os.read(os.open({path!r}, os.O_RDONLY), 4096))"
                ),
            )
            taken.append(room_of(machine, "/var/cache/disk"))
        # One of them has its room; all others wait for it.
        wait_for(lambda: small_disk.status()["growing"] == 1)
        taken.append(room_of(machine, "/var/cache/disk"))
        assert max(taken) <= CAPACITY * 1.2


@pytest.mark.slow
def test_a_file_of_nearly_the_capacity_evicts_nobodys_copies(machine, small_disk):
    machine.read(HOSTILE, machine.file(f"{DATA}/first", b"x", HOSTILE, 0o600))
    for number in range(4):
        path = machine.file(f"{DATA}/set{number}/file", b"x" * (2 << 20))
        small_disk.read_from_copy(READER, path, b"x" * (2 << 20))
    path = sparse(machine, "scratch/large", HOSTILE, CAPACITY - 1)
    with machine.reader(HOSTILE) as hostile:

        def begin() -> None:
            hostile.open(path)
            assert hostile.more(4096) == bytes(4096)

        read_until(lambda: small_disk.has_open(path), begin)
        end = time.monotonic() + 3.0
        while time.monotonic() < end:
            assert small_disk.counted("evictions") == 0
            time.sleep(0.1)
