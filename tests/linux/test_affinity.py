# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which CPUs threads are moved to, and which they keep."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress

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
    found = {}
    for thread in os.listdir(f"/proc/{pid}/task"):
        with suppress(ProcessLookupError):
            found[int(thread)] = os.sched_getaffinity(int(thread))
    return found


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


STARTS_THREADS = """
import os, threading, time
def start():
    while True:
        thread = threading.Thread(target=time.sleep, args=(0.001,))
        thread.start()
        thread.join()
for _ in range(8):
    threading.Thread(target=start).start()
print(flush=True)
"""


@pytest.mark.parametrize("change", [confine, narrow])
def test_a_program_that_starts_threads_all_the_time_does_not_hold_us_up(change):
    with subprocess.Popen(
        [sys.executable, "-c", STARTS_THREADS], stdout=subprocess.PIPE
    ) as process:
        try:
            process.stdout.readline()
            done = threading.Thread(
                target=change, args=([process.pid], frozenset(CPUS[:1])), daemon=True
            )
            done.start()
            done.join(60)
            assert not done.is_alive()
            # Those that it starts now have it from the others.
            assert {*map(frozenset, affinities(process.pid).values())} == {frozenset(CPUS[:1])}
        finally:
            process.kill()
