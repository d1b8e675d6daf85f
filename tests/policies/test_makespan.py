# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The makespan's growth with each job's work, against that of makespans found by bisection."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.policies.queues.makespan import (
    equal_speeds,
    least_enough,
    progress,
    shadow_prices,
)
from tf_malleable.policies.queues.speedup import Curve

# A job: its work in seconds on one core, its serial part, and the most cores it can use.
Made = tuple[float, float, int]


def seconds(job: Made, cores: float) -> float:
    """Return how long a job takes by Amdahl's law; with less than a core, it has one at times."""
    work, serial, _ = job
    return work * (serial + (1.0 - serial) / cores) if cores > 1.0 else work / cores


def cores_to_end_by(job: Made, end: float) -> float:
    least, most = 0.0, float(job[2])
    for _ in range(60):
        middle = (least + most) / 2.0
        least, most = (least, middle) if seconds(job, middle) <= end else (middle, most)
    return most


def makespan(jobs: Sequence[Made], cores: int) -> float:
    """Return the least time in which all jobs can end, however cores are shared out."""
    least = max(seconds(job, job[2]) for job in jobs)
    most = least + sum(job[0] for job in jobs)
    for _ in range(60):
        middle = (least + most) / 2.0
        fits = sum(cores_to_end_by(job, middle) for job in jobs) <= cores
        least, most = (least, middle) if fits else (middle, most)
    return most


def grows(jobs: Sequence[Made], cores: int) -> list[float]:
    curves = [Curve(2.0, 2.0 * serial) for _, serial, _ in jobs]
    return shadow_prices([job[0] for job in jobs], curves, [job[2] for job in jobs], cores)


def by_difference(jobs: Sequence[Made], index: int, cores: int) -> tuple[float, float]:
    """Return how the makespan changes with less and with more of a job's work."""
    work, serial, most = jobs[index]
    step = 1e-4 * work
    found = []
    for change in (-step, step):
        changed = [*jobs[:index], (work + change, serial, most), *jobs[index + 1 :]]
        found.append((makespan(changed, cores) - makespan(jobs, cores)) / change)
    return found[0], found[1]


made = st.tuples(
    st.floats(1.0, 1000.0), st.sampled_from([0.0, 0.05, 0.3]), st.sampled_from([1, 2, 8, 16])
)


@given(st.lists(made, min_size=1, max_size=8).map(sorted), st.sampled_from([2, 8, 16]))
def test_growth_is_the_slope_of_the_makespan(jobs: list[Made], cores: int) -> None:
    jobs = [(work, serial, min(most, cores)) for work, serial, most in jobs]
    for index, found in enumerate(grows(jobs, cores)):
        slopes = by_difference(jobs, index, cores)
        # Where two bounds meet, the slopes differ.
        assert min(slopes) * 0.98 - 0.002 <= found <= max(slopes) * 1.02 + 0.002


def test_with_linear_speed_ups_every_second_counts_alike() -> None:
    jobs = [(100.0, 0.0, 8), (200.0, 0.0, 8), (700.0, 0.0, 8)]
    assert grows(jobs, 8) == pytest.approx([1 / 8, 1 / 8, 1 / 8], rel=0.01)


def test_only_a_job_counts_that_is_longer_than_all_others_together() -> None:
    # With its two cores it takes 500 s, and the others 100 s.
    jobs = [(300.0, 0.0, 8), (300.0, 0.0, 8), (1000.0, 0.0, 2)]
    assert grows(jobs, 8) == [0.0, 0.0, 0.5]


def test_long_jobs_count_more_if_many_cores_help_little() -> None:
    short, long = grows([(10.0, 0.1, 16), (1000.0, 0.1, 16)], 16)
    assert long > short > 0.0
    # A job of a hundred jobs is as it would be with a hundredth of the cores.
    many = grows([(10.0, 0.1, 16), (1000.0, 0.1, 16)] * 100, 16)
    assert max(many) < 0.07


@pytest.mark.parametrize("count", [0, 1, 49, 1000])
def test_each_job_has_a_price(count: int) -> None:
    jobs = [(1.0 + number, 0.05, 4) for number in range(count)]
    assert len(grows(jobs, 8)) == count


@given(
    st.lists(st.tuples(st.floats(0, 1e15), st.floats(0, 2), st.integers(1, 300)), max_size=60),
    st.integers(1, 300),
)
def test_whatever_is_said_of_jobs_prices_are_numbers(jobs: list[Made], cores: int) -> None:
    for price in grows(jobs, cores):
        assert 0.0 <= price < math.inf


def test_jobs_without_work_left_have_none() -> None:
    assert grows([(0.0, 0.05, 4)] * 3, 8) == [0.0] * 3


@pytest.mark.parametrize("cores", [2, 8, 16])
@pytest.mark.parametrize(
    "jobs",
    [
        [(10.0, 0.05, 16), (50.0, 0.05, 16), (400.0, 0.05, 16)],
        [(10.0, 0.3, 2), (50.0, 0.0, 16), (90.0, 0.3, 16), (100.0, 0.05, 8)],
        [(10.0, 0.0, 1), (20.0, 0.0, 1), (900.0, 0.0, 2)],
    ],
)
def test_progress_is_how_much_sooner_all_can_end_after_a_while_with_equal_shares(
    jobs: list[Made], cores: int
) -> None:
    jobs = [(work, serial, min(most, cores)) for work, serial, most in jobs]
    curves = [Curve(2.0, 2.0 * serial) for _, serial, _ in jobs]
    speeds = equal_speeds(curves, [job[2] for job in jobs], cores)
    step = 1e-4 * makespan(jobs, cores)
    after = [
        (work - step * speed, serial, most)
        for (work, serial, most), speed in zip(jobs, speeds, strict=True)
    ]
    falls = (makespan(jobs, cores) - makespan(after, cores)) / step
    assert falls == pytest.approx(progress(grows(jobs, cores), speeds), rel=0.02)


def test_equal_shares_are_parts_of_cores_and_no_more_than_a_job_can_use() -> None:
    linear = Curve(3.0, 0.0)
    assert equal_speeds([linear] * 3, [8, 1, 8], 8) == [3.5, 1.0, 3.5]
    assert equal_speeds([linear] * 3, [2, 1, 2], 8) == [2.0, 1.0, 2.0]
    # A core that two jobs have in turns makes each half as fast.
    assert equal_speeds([linear, Curve(3.0, 3.0)] * 2, [4] * 4, 2) == [0.5] * 4
    assert equal_speeds([], [], 2) == []


@given(
    st.floats(1e-6, 1e6).flatmap(lambda most: st.tuples(st.just(most), st.floats(0.0, 2.0 * most)))
)
def test_the_least_factor_that_is_enough_is_found_within_a_part(said: tuple[float, float]) -> None:
    most, least = said
    found = least_enough(lambda factor: factor >= least, most)
    if least > most:
        assert found == most
    else:
        assert least <= found <= max(1.1 * least, least + min(1.0, most) / 30)
