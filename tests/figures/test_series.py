# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Turnaround, utilisation and queue of a history, against numbers found by hand."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.histories import history, job, shared
from tf_malleable.api.schema.history import History
from tf_malleable.figures import series
from tf_malleable.figures.timeline import rows


def area(steps: series.Steps) -> float:
    return sum((end - begin) * value for (begin, value), (end, _) in pairwise(steps))


def test_turnaround_is_from_arrival_to_end():
    assert series.turnarounds(shared()) == [4.0, 4.0, 12.0]


def test_the_distribution_rises_to_one():
    assert series.distribution([4.0, 4.0, 12.0]) == [(4.0, pytest.approx(2 / 3)), (12.0, 1.0)]
    assert series.distribution([7.0]) == [(7.0, 1.0)]
    assert series.distribution([]) == []


def test_of_many_values_the_smallest_and_largest_are_kept():
    found = series.distribution([float(value) for value in range(1, 100_001)], most=5)
    assert found == [(1, 1e-5), (25_000, 0.25), (50_000, 0.5), (75_000, 0.75), (100_000, 1.0)]


def test_utilisation_is_the_granted_part_of_the_cores():
    # 2 of 4 until 9; then one core for a second, and two for two.
    assert series.utilisation(rows(shared()), 4) == [
        (0.0, 0.5),
        (4.0, 0.5),
        (6.0, 0.5),
        (8.0, 0.5),
        (9.0, 0.25),
        (10.0, 0.5),
        (12.0, 0.0),
    ]


def test_utilisation_counts_the_time_before_the_first_start():
    late = history(job(1, "a", [(0, 3, "waiting", []), (3, 5, "running", [0, 1])]))
    assert series.utilisation(rows(late), 2) == [(0.0, 0.0), (3.0, 1.0), (5.0, 0.0)]


def test_the_queue_holds_those_who_wait_and_those_who_are_paused():
    # One waits from 5 to 6; another is paused from 6 to 8.
    assert series.queue(rows(shared())) == [
        (0.0, 0.0),
        (5.0, 1.0),
        (6.0, 1.0),
        (8.0, 0.0),
        (12.0, 0.0),
    ]
    two = history(
        job(1, "a", [(0, 4, "waiting", []), (4, 9, "running", [0])]),
        job(2, "b", [(1, 3, "waiting", []), (3, 4, "running", [0])]),
    )
    assert series.queue(rows(two)) == [(0, 1), (1, 2), (3, 1), (4, 0), (9, 0)]


def test_without_spans_the_records_tell():
    plain = History(shared().jobs, [], shared().summary)
    core_seconds = sum(job.core_seconds for job in shared().jobs)
    assert core_seconds == 23
    assert 2 * area(series.utilisation(rows(plain), 2)) == pytest.approx(core_seconds)
    assert (5.0, 1.0) in series.queue(rows(plain))


def test_nothing_has_no_curves():
    assert series.utilisation([], 4) == []
    assert series.queue([]) == []
    assert series.averaged([], 1.0) == []
    assert series.last_end([]) == 0.0


def test_jobs_that_take_no_time_leave_a_point():
    instant = rows(history(job(1, "a", [(0, 0, "running", [0])])))
    assert series.utilisation(instant, 1) == [(0.0, 0.0)]
    assert series.queue(instant) == [(0.0, 0.0)]
    assert series.averaged([(0.0, 0.0)], 1.0) == [(0.0, 0.0)]


def test_no_cores_cannot_be_shared_out():
    with pytest.raises(ValueError, match=r"at least 1 core to share out, not 0"):
        series.utilisation(rows(shared()), 0)


def test_means_over_times_of_equal_length():
    steps = [(0.0, 2.0), (1.0, 4.0), (6.0, 1.0), (7.0, 0.0)]
    # 0 … 4: one second of 2 and three of 4; 4 … 7: two of 4 and one of 1.
    assert series.averaged(steps, 4.0) == [(0.0, 3.5), (4.0, 3.0), (7.0, 0.0)]
    assert series.averaged(steps, 100.0) == [(0.0, pytest.approx(23 / 7)), (7.0, 0.0)]


@given(
    st.lists(st.tuples(st.integers(1, 50), st.integers(0, 9)), min_size=1, max_size=30),
    st.floats(0.5, 60),
)
def test_means_keep_the_area(lengths, seconds):
    steps, now = [], 0.0
    for length, value in lengths:
        steps.append((now, float(value)))
        now += length
    steps.append((now, 0.0))
    found = series.averaged(steps, seconds)
    assert area(found) == pytest.approx(area(steps))
    assert found[0][0] == 0.0
    assert found[-1] == steps[-1]
    assert all(end - begin <= seconds * 1.001 for (begin, _), (end, _) in pairwise(found))
