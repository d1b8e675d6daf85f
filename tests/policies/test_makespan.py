# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A large weight of the makespan makes jobs of one length end together, not in disorder."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tf_malleable.policies.queues.makespan import USUAL_WEIGHT, evened, makespan_weight
from tf_malleable.policies.queues.speedup import Curve
from tf_malleable.policies.queues.turnaround import least_turnaround

CORES = 256
CURVE = Curve(1.0, 0.2 / CORES)


def test_the_makespan_counts_more_the_more_alike_jobs_are():
    alike = makespan_weight([100.0] * 5, CORES)
    similar = makespan_weight([100.0, 90.0, 90.0, 90.0, 90.0], CORES)
    different = makespan_weight([100.0, 10.0, 10.0, 10.0, 10.0], CORES)
    assert alike > similar > different
    assert different == pytest.approx(USUAL_WEIGHT)
    # Noise in measured speeds does not change much.
    assert makespan_weight([100.0, 99.0, 101.0, 100.0], CORES) > 0.9 * alike


@pytest.mark.parametrize("cores", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("jobs", [1, 2, 5, 40])
def test_likeness_does_not_matter_where_few_cores_leave_no_choice(jobs, cores):
    different = [100.0, *[1.0] * (jobs - 1)]
    assert makespan_weight([100.0] * jobs, cores) == makespan_weight(different, cores)


def test_the_makespan_counts_less_with_few_cores_and_many_jobs():
    assert makespan_weight([1.0], 2) < makespan_weight([1.0], 8) < makespan_weight([1.0], 64)
    weights = [makespan_weight([1.0] * jobs, CORES) for jobs in range(5, 100)]
    # One job more or less changes little.
    assert all(0.8 * less <= more < less for less, more in pairwise(weights))


@pytest.mark.parametrize(
    "lengths", [[30.0], [30.0, 0.5], [1e-6] * 3, [0.0, 0.0], [1e24, 0.0, 1e24]]
)
def test_any_lengths_have_a_weight(lengths):
    assert 0.0 < makespan_weight(lengths, CORES) < CORES


def test_of_equal_jobs_none_has_more_cores_than_the_one_before_it():
    assert evened([104, 74, 36, 0, 42], [256] * 5, [False, *[True] * 4]) == [104, 74, 36, 21, 21]
    assert evened([10, 20, 30], [256] * 3, [False, True, True]) == [20, 20, 20]
    assert evened([1, 0, 2], [256] * 3, [False, True, True]) == [1, 1, 1]
    assert evened([], [], []) == []


def test_a_longer_job_keeps_what_it_has():
    assert evened([30, 10, 50], [256] * 3, [False, True, False]) == [30, 10, 50]
    assert evened([30, 10, 50, 70], [256] * 4, [False, True, False, True]) == [30, 10, 60, 60]


def test_a_job_that_cannot_use_an_even_share_leaves_it_to_the_other():
    assert evened([1, 63], [1, 256], [False, True]) == [1, 63]
    assert evened([1, 63], [32, 256], [False, True]) == [32, 32]


def makespan(weight: float) -> float:
    """Return in how many seconds the last of five equal jobs ends if cores move at any time."""
    left, seconds = [1000.0] * 5, 0.0
    while left:
        left.sort()
        limits = [CORES] * len(left)
        as_long = [False, *(after < 1.15 * before for before, after in pairwise(left))]
        best = least_turnaround([CURVE] * len(left), limits, CORES, weight)
        speeds = [CURVE.speedup(count) for count in evened(best, limits, as_long)]
        pairs = list(zip(left, speeds, strict=True))
        step = min(0.1, *(work / speed for work, speed in pairs if speed))
        seconds += step
        left = [rest for work, speed in pairs if (rest := work - step * speed) > 1e-6]
    return seconds


def test_the_larger_its_weight_the_sooner_the_last_of_equal_jobs_ends():
    together = 1000.0 / CURVE.speedup(CORES // 5)
    found = [makespan(weight) for weight in (0.0, 3.0, 10.0, 20.0, 30.0, 100.0, 500.0)]
    assert all(after <= 1.001 * before for before, after in pairwise(found))
    assert found[0] > 1.05 * together
    assert found[-1] <= together
