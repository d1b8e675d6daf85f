# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a reader hands over, root neither marks nor links: it may be anybody's."""

from __future__ import annotations

import os
import time

import pytest

from tests.support.tier_attacks import attack
from tests.support.tier_machine import DATA, HOSTILE, READER, daemon

pytestmark = pytest.mark.hostile("changed")

# Files are published within 20 ms of their arrival.
_PUBLISHED_SECONDS = 3.0


@pytest.fixture(params=["plain", "unit"])
def running(request, machine):
    """Root's tier; under the unit, whose mounts are others, links fail."""
    with daemon(machine, "--shared", is_unit=request.param == "unit") as found:
        yield found


def state_of(path) -> tuple[object, ...]:
    """Return what nobody but its owner changes of a file."""
    about = path.stat()
    attributes = {name: os.getxattr(path, name) for name in os.listxattr(path)}
    return about.st_nlink, about.st_uid, about.st_mode, about.st_mtime_ns, attributes


def is_untouched(path, before) -> bool:
    """Return whether a file stays as it was while the daemon has time to change it."""
    end = time.monotonic() + _PUBLISHED_SECONDS
    while (same := state_of(path) == before) and time.monotonic() < end:
        time.sleep(0.05)
    return same


@pytest.mark.slow
def test_a_setuid_program_of_roots(machine, running, big):
    program = machine.file("/srv/tools/su", big, 0, 0o4755)
    own = machine.file(f"{DATA}/scratch/own", bytes(len(big)), HOSTILE)
    before = state_of(machine.path(program))
    with attack(machine, "hand over", running.socket, own, program) as said:
        assert said == "heard"
        assert is_untouched(machine.path(program), before)


@pytest.mark.slow
def test_a_public_copy(machine, running, public, big):
    running.read_from_copy(READER, public, big)
    (copy,) = machine.stored(running.store, len(big))
    own = machine.file(f"{DATA}/scratch/own", bytes(len(big)), HOSTILE)
    about = machine.path(public).stat()
    before = state_of(machine.path(copy))
    with attack(machine, "hand over", running.socket, own, copy) as said:
        assert said in ("heard", "out of reach")
        assert is_untouched(machine.path(copy), before)
    with machine.reader(READER) as reader:
        reader.open(public)
        seen = reader.call("(lambda s: [s.st_uid, s.st_ino, s.st_mtime_ns])(os.fstat(fd))")
        assert seen == [about.st_uid, about.st_ino, about.st_mtime_ns]


@pytest.mark.slow
def test_a_file_of_another_user(machine, running, big):
    """Whoever runs the daemon, it is not theirs."""
    theirs = machine.file("/srv/tools/theirs", big, READER)
    own = machine.file(f"{DATA}/scratch/own", bytes(len(big)), HOSTILE)
    before = state_of(machine.path(theirs))
    with attack(machine, "hand over", running.socket, own, theirs) as said:
        assert said == "heard"
        assert is_untouched(machine.path(theirs), before)


def test_a_descriptor_that_is_good_for_nothing_is_closed(machine, shared, public):
    before = len(os.listdir(f"/proc/{shared.process.pid}/fd"))
    with attack(machine, "paths", shared.socket, public) as said:
        assert said == "heard"
        # His connection, and some of the daemon's own.
        assert len(os.listdir(f"/proc/{shared.process.pid}/fd")) < before + 20
    assert b"Traceback" not in shared.log.read_bytes()
