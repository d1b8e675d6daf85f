# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""set_cpuset refuses what cannot be, and reaches threads that no pool owns."""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import pytest

import tf_malleable as tfm
from tf_malleable.runtime import _native


@pytest.fixture
def _restored():
    before = os.sched_getaffinity(0)
    yield
    tfm.set_cpuset(before)
    _native.set_threads(_native.UNSET, _native.UNSET)


def affinity_of_all_threads() -> set[frozenset[int]]:
    found = set()
    for tid in os.listdir("/proc/self/task"):
        # Threads of an earlier test may be on their way out.
        with suppress(ProcessLookupError):
            found.add(frozenset(os.sched_getaffinity(int(tid))))
    return found


@pytest.mark.parametrize("cpus", [set(), [], {-1}, {0.5}, "0", 3, None, {True}, [None]])
def test_what_is_no_cpuset(cpus):
    before = affinity_of_all_threads()
    with pytest.raises(ValueError, match="non-empty set of CPU numbers"):
        tfm.set_cpuset(cpus)
    assert affinity_of_all_threads() == before


def test_a_cpu_that_is_not_there():
    before = affinity_of_all_threads()
    limits = tfm.get_threads()
    with pytest.raises(ValueError, match=r"may use CPUs \[0.*\], not \[4242\]"):
        tfm.set_cpuset({0, 4242})
    assert affinity_of_all_threads() == before
    assert tfm.get_threads() == limits


@pytest.mark.usefixtures("_restored")
def test_present_and_future_threads_move():
    go_on = threading.Event()
    others = [threading.Thread(target=go_on.wait) for _ in range(3)]
    for thread in others:
        thread.start()
    tfm.set_cpuset({0})
    late = threading.Thread(target=go_on.wait)
    late.start()
    try:
        assert len(os.listdir("/proc/self/task")) >= 5
        assert affinity_of_all_threads() == {frozenset({0})}
        assert tfm.get_threads() == tfm.Threads(intra=1, inter=1)
    finally:
        go_on.set()
        for thread in [*others, late]:
            thread.join()


@pytest.mark.usefixtures("_restored")
def test_a_cpuset_can_grow_again():
    everything = os.sched_getaffinity(0)
    tfm.set_cpuset({min(everything)})
    tfm.set_cpuset(everything)
    assert affinity_of_all_threads() == {frozenset(everything)}
    assert tfm.get_threads().intra == len(everything)


@pytest.mark.usefixtures("_restored")
def test_the_highest_cpu_is_allowed_whatever_python_counts(monkeypatch):
    highest = max(os.sched_getaffinity(0))
    # As with PYTHON_CPU_COUNT, or where CPUs with lower numbers are offline.
    monkeypatch.setattr(os, "cpu_count", lambda: 1)
    tfm.set_cpuset({highest})
    assert affinity_of_all_threads() == {frozenset({highest})}
