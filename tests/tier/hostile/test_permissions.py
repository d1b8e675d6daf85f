# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is taken away from a user is out of his reach, through the tier and in its store."""

from __future__ import annotations

import os
import struct
import time

import pytest

from tests.support.controllers import wait_for
from tests.support.tier_machine import DATA, HOSTILE, OWNER, READER, STORE
from tests.support.tiers import read_until

pytestmark = pytest.mark.hostile("read")

# A second, on a machine that is ten times slower.
_CLOSED_SECONDS = 10.0
FOLDER = f"{DATA}/open/set"


def acl_without(uid: int, kept: int) -> bytes:
    """Return an ACL by which one user has no permission; the format is linux/posix_acl_xattr.h's.

    Args:
        uid: That user.
        kept: Permission of all others: 4 to read, 5 to enter, too.
    """
    nobody = 0xFFFFFFFF
    entries = ((1, kept | 2, nobody), (2, 0, uid), (4, kept, nobody), (16, kept, nobody),
               (32, kept, nobody))  # fmt: skip
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)


def set_acl(path, kept):
    try:
        os.setxattr(path, "system.posix_acl_access", acl_without(HOSTILE, kept))
    except OSError as error:
        pytest.skip(f"no access control lists here: {error}")


WAYS = {
    "file": lambda machine, path: machine.path(path).chmod(0o600),
    "folder": lambda machine, path: machine.path(FOLDER).chmod(0o700),
    "folder above": lambda machine, path: machine.path(f"{DATA}/open").chmod(0o750),
    "ACL of the file": lambda machine, path: set_acl(machine.path(path), 4),
    "ACL of a folder": lambda machine, path: set_acl(machine.path(FOLDER), 5),
    "owner": lambda machine, path: (
        machine.path(path).chmod(0o640),
        os.chown(machine.path(path), OWNER, OWNER),
    ),
}
BY_WAY = pytest.mark.parametrize("way", WAYS)


def last_success(read) -> bool:
    """Return whether a read still succeeds when the time is up."""
    end = time.monotonic() + _CLOSED_SECONDS
    while (found := read()) is not None and time.monotonic() < end:
        time.sleep(0.1)
    return found is not None


@BY_WAY
def test_taken_away_by(machine, shared, public, big, way):
    with machine.reader(HOSTILE) as hostile, machine.reader(HOSTILE, through=False) as plain:
        shared.read_from_copy(READER, public, big)
        assert hostile.read(public) == plain.read(public) == big
        WAYS[way](machine, public)
        # So says the kernel, of whom the tier is no better friend.
        assert plain.read(public) is None
        assert not last_success(lambda: hostile.read(public))


@BY_WAY
def test_taken_away_in_the_store_by(machine, shared, public, big, way):
    shared.read_from_copy(READER, public, big)
    copies = machine.stored(STORE, len(big))
    assert copies
    with machine.reader(HOSTILE, through=False) as hostile:
        WAYS[way](machine, public)
        assert hostile.read(public) is None
        assert not last_success(
            lambda: next((1 for copy in copies if hostile.read(copy) == big), None)
        )


@pytest.mark.slow
def test_taken_away_while_the_copy_is_made(machine, shared, public, big):
    half = len(big) // 2
    with machine.reader(READER) as reader, machine.reader(HOSTILE, through=False) as hostile:

        def read_half() -> None:
            reader.open(public)
            assert reader.more(half) == big[:half]

        # Until the daemon has decided whose it is.
        read_until(lambda: shared.status()["growing"], read_half)
        machine.path(FOLDER).chmod(0o700)
        # He had opened it before, as he may without a tier.
        assert reader.more() == big[half:]
        reader.close()
        # Until the daemon has decided what becomes of the copy.
        wait_for(lambda: not shared.status()["growing"])
        assert hostile.read(public) is None
        assert not appears(
            lambda: [c for c in machine.stored(STORE, len(big)) if hostile.read(c) == big]
        )


def appears(find) -> object:
    """Return what is found within the time in which the daemon would have published it."""
    end = time.monotonic() + 5.0
    while not (found := find()) and time.monotonic() < end:
        time.sleep(0.1)
    return found


@pytest.mark.slow
def test_a_permission_that_comes_and_goes(machine, shared, public, big):
    """A hit that follows a chmod on the same machine knows of it."""
    succeeded = 0
    with machine.reader(HOSTILE) as hostile, machine.reader(READER) as reader:
        shared.read_from_copy(READER, public, big)
        for _ in range(20):
            machine.path(FOLDER).chmod(0o700)
            succeeded += hostile.read(public) is not None
            machine.path(FOLDER).chmod(0o755)
            assert reader.read(public) == big
    assert succeeded == 0


def test_a_private_copy_is_its_users_alone(machine, shared, big):
    path = machine.file(f"{DATA}/own/big", big, OWNER, 0o600)
    machine.read(OWNER, path)
    shared.read_from_copy(OWNER, path, big)
    with machine.reader(HOSTILE) as hostile:
        for each in (path, *machine.stored(STORE, len(big))):
            assert hostile.read(each) is None


@pytest.mark.parametrize("through", [True, False], ids=["tier", "store"])
def test_taken_away_from_the_user_of_a_private_copy(machine, shared, big, through):
    path = machine.file(f"{DATA}/own/big", big, READER, 0o600)
    machine.read(READER, path)
    shared.read_from_copy(READER, path, big)
    (copy,) = machine.stored(STORE, len(big))
    with machine.reader(READER, through) as reader:
        os.chown(machine.path(path), OWNER, OWNER)
        assert not last_success(lambda: reader.read(path if through else copy))
