# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which CPUs threads are moved to, and which they keep."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tf_malleable.linux.processes.affinity import confine, narrow

CPUS = sorted(os.sched_getaffinity(0))
PROGRAM = "import threading; threading.Thread(target=input).start(); input()"


@pytest.fixture
def pid():
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE) as process:
        while len(os.listdir(f"/proc/{process.pid}/task")) < 2:
            pass
        yield process.pid
        process.kill()


def affinities(pid):
    return {
        int(thread): os.sched_getaffinity(int(thread)) for thread in os.listdir(f"/proc/{pid}/task")
    }


@pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs")
def test_narrowing_gives_nothing(pid):
    first, second = frozenset(CPUS[:1]), frozenset(CPUS[1:2])
    other = max(affinities(pid))
    os.sched_setaffinity(other, first)
    narrow([pid], first | second)
    assert affinities(pid) == {pid: first | second, other: first}
    narrow([pid, 2**22 + 1], second)  # One that may use none of them gets them.
    assert affinities(pid) == {pid: second, other: second}
    narrow([pid], first | second)
    assert affinities(pid) == {pid: second, other: second}
    confine([pid], first | second)
    assert affinities(pid) == {pid: first | second, other: first | second}
