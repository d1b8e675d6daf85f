# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The memory of this host, of a process, and of a job's cgroup with its limit."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.deadline import DEADLINE
from tf_malleable.linux import memory
from tf_malleable.linux.cgroups import job_cgroup, memory_cgroup
from tf_malleable.linux.memory import process_memory, read_memory
from tf_malleable.linux.processes import procfs

MIB = 1 << 20
# Takes as many MiB as each line says, and says when it has them.
TAKES = """
import sys
held = []
for line in sys.stdin:
    held.append(bytearray(b"x" * (int(line) << 20)))
    print("taken", flush=True)
"""


@contextmanager
def taker() -> Iterator[subprocess.Popen[str]]:
    """Run a process that takes memory when it is told to."""
    process = subprocess.Popen(
        [sys.executable, "-c", TAKES], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def take(process: subprocess.Popen[str], mib: int) -> str:
    """Have it take memory; return what it says: nothing if it was killed."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{mib}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


def test_the_host_has_memory():
    found = read_memory()
    assert found is not None
    assert 0 < found.available <= found.total
    assert found.total == pytest.approx(
        os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"), rel=0.01
    )
    assert found.stalled is None or 0 <= found.stalled <= 1


def test_without_psi_or_meminfo_it_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(memory, "_PRESSURE", tmp_path / "missing")
    found = read_memory()
    assert found is not None
    assert found.stalled is None
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "missing")
    assert read_memory() is None


def test_pressure_is_read_as_a_share(tmp_path, monkeypatch):
    pressure = tmp_path / "memory"
    pressure.write_text(
        "some avg10=12.50 avg60=1.00 avg300=0.10 total=5\n"
        "full avg10=3.00 avg60=0.00 avg300=0.00 total=1\n"
    )
    monkeypatch.setattr(memory, "_PRESSURE", pressure)
    found = read_memory()
    assert found is not None
    assert found.stalled == pytest.approx(0.125)
    pressure.write_text("")
    found = read_memory()
    assert found is not None
    assert found.stalled is None


def test_what_a_process_takes_is_counted():
    with taker() as process:
        assert take(process, 1) == "taken"
        before = process_memory(process.pid)
        assert take(process, 64) == "taken"
        # bytes * 64 exists for a moment beside the bytearray.
        assert 60 * MIB <= process_memory(process.pid) - before <= 140 * MIB
    assert process_memory(process.pid) == 0


@pytest.fixture
def grouped():
    """A process that takes memory, its job's cgroup, and that in which memory is counted."""
    with taker() as process:
        identity = procfs.identify(process.pid)
        assert identity is not None
        group = job_cgroup.make(identity)
        if group is None:
            skip_without("freezer")
        counted = memory_cgroup.make(identity, group)
        try:
            if counted is None:
                skip_without("memory")
            yield process, identity, group, counted
        finally:
            process.kill()
            process.wait()
            deadline = time.monotonic() + DEADLINE
            while not (group.remove() and (counted is None or counted.remove())):
                assert time.monotonic() < deadline
                time.sleep(0.01)


def test_a_job_never_gets_more_than_its_limit(grouped):
    process, _, _, counted = grouped
    assert counted.limit(64 * MIB)
    assert take(process, 8) == "taken"
    used = counted.used()
    assert used is not None
    assert 8 * MIB <= used <= 64 * MIB
    assert take(process, 256) == ""
    assert process.wait(DEADLINE) == -signal.SIGKILL


def test_the_limit_is_for_its_children_too(grouped):
    _, _, group, counted = grouped
    with taker() as other:
        # Where it would be if the process had started it.
        group.add(other.pid)
        counted.folder.joinpath("cgroup.procs").write_text(str(other.pid))
        assert counted.limit(64 * MIB)
        assert take(other, 256) == ""
        assert other.wait(DEADLINE) == -signal.SIGKILL


def test_it_is_found_again(grouped):
    _, identity, group, counted = grouped
    again = memory_cgroup.make(identity, group)
    assert again is not None
    assert again.folder == counted.folder


def test_a_limit_can_be_lifted(grouped):
    process, _, _, counted = grouped
    assert counted.limit(64 * MIB)
    assert counted.lift()
    assert take(process, 128) == "taken"
