# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A machine of four users, of whom one is hostile, and root's tier on it."""

from __future__ import annotations

import os
import random
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.support.mount_namespaces import needs_mounts
from tests.support.tier_machine import DATA, Machine, daemon

BIG_BYTES = (5 << 20) + 777


def pytest_collection_modifyitems(items):
    here = Path(__file__).parent
    for item in items:
        if item.path.is_relative_to(here):
            item.add_marker(pytest.mark.slow)
            item.add_marker(needs_mounts)
            if os.geteuid() != 0:
                item.add_marker(pytest.mark.skip(reason="needs root, to be several users"))


@pytest.fixture
def machine():
    # Not below pytest's own folder, which other users may not enter; on a disk, as stores are.
    disk = Path(tempfile.mkdtemp(prefix="tfm-machine-", dir="/var/tmp"))
    disk.chmod(0o755)
    found = Machine(disk)
    yield found
    found.close()
    shutil.rmtree(disk)


@pytest.fixture
def big() -> bytes:
    """The content of a file that is not small."""
    return random.Random(1).randbytes(BIG_BYTES)


@pytest.fixture
def public(machine, big) -> str:
    """A large file that everybody may read."""
    return machine.file(f"{DATA}/open/set/big", big)


@pytest.fixture
def shared(machine):
    """Root's tier for all users, without a unit's restrictions."""
    with daemon(machine, "--shared") as found:
        yield found


@pytest.fixture
def unit(machine):
    """Root's tier for all users, as the shipped systemd unit runs it."""
    with daemon(machine, "--shared", is_unit=True) as found:
        yield found
