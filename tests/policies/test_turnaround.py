# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Counts come close to the least mean turnaround there is, found by trying everything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from tf_malleable.policies.queues.speedup import Curve
from tf_malleable.policies.queues.turnaround import elasticity, hand_out, prices


def least_turnaround(curves: list[Curve], limits: list[int], cores: int) -> list[int]:
    """Return the counts at which the sum of turnarounds falls most."""
    return hand_out(curves, limits, cores, prices(curves, limits, cores))


Choose = Callable[[tuple[float, ...], Curve, int], Iterator[tuple[int, ...]]]


def splits(cores: int, jobs: int) -> Iterator[tuple[int, ...]]:
    """Yield every way to share out all cores."""
    if jobs == 1:
        yield (cores,)
        return
    for first in range(cores + 1):
        for rest in splits(cores - first, jobs - 1):
            yield (first, *rest)


def all_of_them(left: tuple[float, ...], curve: Curve, cores: int) -> Iterator[tuple[int, ...]]:
    return splits(cores, len(left))


def ours(left: tuple[float, ...], curve: Curve, cores: int) -> Iterator[tuple[int, ...]]:
    counts = least_turnaround([curve] * len(left), [cores] * len(left), cores)
    yield tuple(counts)


def total(left: tuple[float, ...], curve: Curve, cores: int, choose: Choose) -> float:
    """Return the least sum of turnarounds when cores move only as jobs end."""
    if not left:
        return 0.0
    best = float("inf")
    for counts in choose(tuple(sorted(left)), curve, cores):
        speeds = [curve.speedup(count) for count in counts]
        pairs = list(zip(sorted(left), speeds, strict=True))
        step = min((work / speed for work, speed in pairs if speed > 0), default=float("inf"))
        if step < float("inf"):
            after = tuple(w - s * step for w, s in pairs if w - s * step > 1e-9)
            best = min(best, len(left) * step + total(after, curve, cores, choose))
    return best


@pytest.mark.parametrize(("jobs", "serial"), [(4, 0.05), (10, 0.05), (8, 0.3), (64, 0.05)])
def test_cores_do_more_for_more_jobs_by_what_fewer_a_job_waste(jobs, serial):
    # n jobs with a serial part s do C / (1 - s + s C / n) on C cores: so e = s w / (1 - s + s w) of
    # w = C / n cores a job.
    width = 64 / jobs
    expected = serial * width / (1 - serial + serial * width)
    found = elasticity([Curve(1.0, serial)] * jobs, [64] * jobs, 64)
    assert found == pytest.approx(expected, abs=0.05)


def test_cores_do_no_more_for_jobs_that_wait_and_as_much_more_for_those_that_need_none_else():
    linear = Curve(1.0, 0.0)
    assert elasticity([linear] * 65, [64] * 65, 64) == elasticity([], [], 64) == 0.0
    assert elasticity([linear] * 4, [64] * 4, 64) == pytest.approx(0.0)
    assert elasticity([linear] * 4, [8] * 4, 64) == 1.0


def test_where_a_core_adds_as_much_the_job_that_came_first_gets_it():
    curve = Curve(1.0, 0.1)
    assert hand_out([curve] * 2, [8] * 2, 5, [1.0, 1.0]) == [3, 2]
    assert hand_out([curve] * 2, [8] * 2, 5, [1.0, 1.0], arrivals=[7.0, 3.0]) == [2, 3]
    # Which of them run is another question.
    assert hand_out([curve] * 2, [8] * 2, 1, [1.0, 1.0], arrivals=[7.0, 3.0]) == [1, 0]


@pytest.mark.parametrize("serial", [0.0, 0.05, 0.2, 0.4, 0.8, 1.0])
@pytest.mark.parametrize(
    ("left", "cores"),
    [((1, 1), 2), ((1, 5), 2), ((1, 2, 3), 2), ((1, 1, 9), 3), ((2, 3), 5), ((1, 2, 4, 8), 3)],
)
def test_nearly_the_best_there_is(left, cores, serial):
    curve = Curve(1.0, serial)
    best = total(left, curve, cores, all_of_them)
    assert total(left, curve, cores, ours) <= 1.03 * best


def test_two_jobs_share_two_cores_if_two_are_less_than_one_and_a_half_times_as_fast():
    two = [2, 2]
    slow, fast = Curve(1.0, 0.35), Curve(1.0, 0.32)
    assert least_turnaround([slow] * 2, two, 2) == [1, 1]
    assert least_turnaround([fast] * 2, two, 2) == [2, 0]


def test_perfect_speedup_means_one_after_the_other():
    assert least_turnaround([Curve(1.0, 0.0)] * 4, [8] * 4, 8) == [8, 0, 0, 0]
    assert least_turnaround([Curve(1.0, 0.0)] * 3, [6, 6, 6], 8) == [6, 2, 0]


@pytest.mark.parametrize("jobs", [1, 7, 48, 49, 500])
@pytest.mark.parametrize("cores", [1, 2, 100, 129, 5000])
def test_large_ones_are_solved_in_bundles(jobs, cores):
    counts = least_turnaround([Curve(1.0, 0.2)] * jobs, [cores] * jobs, cores)
    assert len(counts) == jobs
    assert all(count >= later for count, later in pairwise(counts))
    assert sum(counts) == cores


@pytest.mark.parametrize("serial", [0.0, 0.1, 0.5])
def test_a_price_is_the_turnaround_that_a_second_of_work_costs(serial):
    """Prices of jobs that end one by one on one core each, or all cores, by hand."""
    curve = Curve(1.0, serial)
    # Alone on two cores, a second of work takes a second divided by the speed-up.
    (alone,) = prices([curve], [2], 2)
    assert alone == pytest.approx(1 / curve.speedup(2))
    # On one core, all jobs behind it wait for a second, too.
    assert prices([curve] * 3, [1] * 3, 1) == pytest.approx([3.0, 2.0, 1.0])


def test_jobs_that_may_not_compute_yet_get_cores_that_hardly_help_others():
    curve = Curve(1.0, 0.1)
    even = hand_out([curve] * 2, [16] * 2, 16, [1.0, 1.0])
    assert even == [8, 8]
    found = hand_out([curve] * 2, [16] * 2, 16, [1.0, 1.0], [1.0, 0.5])
    assert sum(found) == 16
    assert 1 < found[1] < 8
    assert hand_out([curve] * 2, [16] * 2, 16, [1.0, 1.0], [1.0, 0.0]) == [15, 1]
    assert hand_out([curve], [4], 16, [1.0], [0.5]) == [4]


def test_a_job_with_a_higher_weight_gets_more_cores_and_none_that_cannot_help():
    good, bad = Curve(1.0, 0.05), Curve(1.0, 1.0)
    first, second = hand_out([good, good], [16, 16], 16, [2.0, 1.0])
    assert first > second > 1
    assert hand_out([good, bad], [16, 16], 16, [1.0, 9.0]) == [15, 1]
