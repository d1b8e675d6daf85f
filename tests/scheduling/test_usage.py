# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CPUs kept busy, from samples of CPU time."""

from __future__ import annotations

import pytest

from tf_malleable.scheduling.records.usage import FULL, Usage


def sampled(*samples: tuple[float, int, float]) -> Usage:
    usage = Usage()
    for cpu_seconds, runnable, now in samples:
        usage.add(cpu_seconds, runnable, now)
    return usage


def test_one_sample_says_nothing_yet():
    usage = sampled((5.0, 3, 1.0))
    assert (usage.used, usage.wanted, usage.level(4)) == (None, None, FULL)
    assert usage.cpu_seconds == 5.0


def test_it_is_the_mean_of_the_last_three_intervals():
    usage = sampled((0, 0, 0), (9, 0, 1), (10, 0, 2), (12, 0, 3), (15, 0, 4))
    assert usage.used == pytest.approx(2.0)  # 1, 2 and 3; the 9 is forgotten.


def test_a_job_that_neither_computes_nor_waits_for_a_cpu_waits_for_its_input():
    usage = sampled((0, 0, 0))
    assert usage.add(2.0, 0, 1.0) == 0.0
    assert usage.add(2.1, 0, 2.0) == 1.0
    # Its threads are runnable: others have its CPUs.
    assert usage.add(2.1, 2, 3.0) == 0.0


def test_threads_that_wait_for_a_cpu_are_wanted_not_used():
    usage = sampled((0, 0, 0), (1, 4, 1))
    assert (usage.used, usage.wanted) == (1.0, 4.0)


def test_the_level_is_in_tenths_and_the_same_for_all_who_use_all_they_have():
    assert sampled((0, 0, 0), (0.57, 0, 1)).level(2) == 5
    assert sampled((0, 0, 0), (1.85, 0, 1)).level(2) == FULL
    assert sampled((0, 0, 0), (2.4, 0, 1)).level(2) == FULL
    assert sampled((0, 0, 0), (2.4, 0, 1)).level(1) == FULL


def test_time_that_stands_still_or_counts_back_is_no_sample():
    assert sampled((1, 0, 5), (2, 0, 5)).used is None
    assert sampled((2, 0, 5), (1, 0, 6)).used == 0.0


def test_forgotten_it_begins_again_but_knows_the_cpu_time():
    usage = sampled((0, 0, 0), (1, 0, 1))
    usage.forget()
    assert (usage.used, usage.cpu_seconds) == (None, 1)
    usage.add(3, 0, 2)
    assert usage.used is None
    usage.add(4, 0, 3)
    assert usage.used == 1.0
