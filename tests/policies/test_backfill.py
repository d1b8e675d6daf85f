# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who may start before a head of the queue that does not fit."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.tournament.works import Work, run
from tf_malleable.model import Grant, Job, Machine, Shape
from tf_malleable.policies.queues.backfill import Reservation, reserve
from tf_malleable.policies.registry import create

NOW = 1000.0
# It will have ended in 50 s. Until then two of four cores are free.
RUNS = Job(
    "runs",
    Shape(2, 2, 2),
    submitted=0.0,
    state="running",
    since=950.0,
    started=950.0,
    grant=Grant(frozenset({0, 1})),
    run_seconds=50.0,
    expected_seconds=100.0,
)


def waits(name: str, cores: int, submitted: float, seconds: float | None = None) -> Job:
    shape = Shape(cores, cores, cores)
    return Job(name, shape, submitted=submitted, since=submitted, expected_seconds=seconds)


def started(*jobs: Job, spec: str = "efficient") -> set[str]:
    grants = create(spec).allocate(jobs, Machine.flat(4), NOW).grants
    return {name for name, grant in grants.items() if grant}


def test_a_reservation_is_for_when_enough_jobs_have_ended():
    running = [(30.0, 2), (10.0, 1), (20.0, 1), (20.0, 3)]
    assert reserve(2, 1, running) == Reservation(10.0, 0)
    assert reserve(3, 1, running) == Reservation(20.0, 3)
    assert reserve(8, 1, running) == Reservation(30.0, 0)


@pytest.mark.parametrize(("seconds", "starts"), [(49.0, True), (51.0, False)])
def test_who_is_over_in_time_overtakes_the_head(seconds, starts):
    head = waits("head", 4, 900.0, 10.0)
    found = started(RUNS, head, waits("small", 1, 950.0, seconds))
    assert found == ({"runs", "small"} if starts else {"runs"})


def test_who_needs_cores_that_the_head_does_not_may_take_as_long_as_it_likes():
    head = waits("head", 3, 900.0, 10.0)
    first, second = waits("first", 1, 950.0, 500.0), waits("second", 1, 951.0, 500.0)
    assert started(RUNS, head, first, second) == {"runs", "first"}


@pytest.mark.parametrize(("arrives", "starts"), [(1529.0, True), (1531.0, False)])
def test_nobody_overtakes_who_comes_ten_minutes_and_three_run_times_later(arrives, starts):
    head = waits("head", 4, 900.0, 10.0)
    found = started(RUNS, head, waits("small", 1, arrives, 20.0))
    assert found == ({"runs", "small"} if starts else {"runs"})


def test_without_any_known_run_time_nobody_overtakes():
    unknown = replace(RUNS, expected_seconds=None)
    assert started(unknown, waits("head", 4, 900.0), waits("small", 1, 950.0)) == {"runs"}


def test_nobody_overtakes_where_people_expect_a_queue():
    jobs = [RUNS, waits("head", 4, 900.0, 10.0), waits("small", 1, 950.0, 20.0)]
    for spec in ("fcfs-strict", "fcfs-max-prop", "equal"):
        assert started(*jobs, spec=spec) == {"runs"}


def test_small_jobs_do_not_wait_behind_a_large_one_that_cannot_start_yet():
    rigid = Shape(4, 4, 4)
    works = [
        Work("long", 0.0, 2000.0, 0.0, Shape(2, 2, 2), foreseen=True),
        Work("head", 1.0, 10.0, 0.0, rigid, foreseen=True),
        *(Work(f"small {n}", 2.0 + n, 20.0, 0.0, Shape(1, 1, 1), foreseen=True) for n in range(12)),
    ]
    found = run("efficient", works, 4)
    assert max(found[work.id].ended for work in works[2:]) < 200.0
    # The head is not delayed: it starts when the long one has ended.
    assert found["head"].started == pytest.approx(found["long"].ended, abs=1.0)
