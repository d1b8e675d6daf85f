# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whole workloads in virtual time: what policies are for, and that nobody starves."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from benchmarks.tournament.works import Work, makespan, mean_turnaround, run
from tests.support.policy_situations import PLAIN
from tf_malleable.model import Shape
from tf_malleable.policies.registry import DEFAULT

ONE_BY_ONE = "fcfs-strict"


def shape(cores: int) -> Shape:
    return Shape(1, cores, cores)


def split(works: list[Work], cores: int) -> list[Work]:
    """Return the jobs as if each could have just so many cores."""
    return [replace(work, shape=Shape(cores, cores, cores)) for work in works]


def random_arrivals(cores: int, seed: int, serial: float) -> list[Work]:
    rng = random.Random(seed)
    return [
        Work(str(n), rng.uniform(0, 400 / cores), rng.uniform(10, 100), serial, shape(cores))
        for n in range(12)
    ]


@pytest.mark.slow
@pytest.mark.parametrize("cores", [2, 8])
@pytest.mark.parametrize("serial", [0.05, 0.3])
@pytest.mark.parametrize("known", [(), (1, 2)])
def test_srpt_has_about_the_lowest_mean_turnaround(cores, serial, known):
    workloads = [
        [replace(work, known=known) for work in random_arrivals(cores, seed, serial)]
        for seed in range(3)
    ]
    found = {
        name: sum(mean_turnaround(run(name, works, cores)) for works in workloads)
        for name in [*PLAIN, DEFAULT]
    }
    others = min(value for name, value in found.items() if name not in ("srpt", DEFAULT))
    # It gives up a little for the makespan.
    assert found["srpt"] < 1.01 * others


# By steps srpt soon knows nearly as much.
@pytest.mark.slow
@pytest.mark.parametrize(("policy", "most"), [("efficient", 0.95), (DEFAULT, 1.0)])
def test_known_run_times_shorten_turnarounds(policy, most):
    workloads = [random_arrivals(2, seed, 0.3) for seed in range(3)]
    new, again = (
        sum(
            mean_turnaround(run(policy, [replace(work, foreseen=foreseen) for work in works], 2))
            for works in workloads
        )
        for foreseen in (False, True)
    )
    assert again < most * new


@pytest.mark.parametrize("cores", [4, 16])
def test_efficient_beats_equal_where_some_jobs_do_not_scale(cores):
    works = [
        Work(str(n), 0.0, 40.0, 0.95 if n % 2 else 0.02, shape(cores), known=(1, 2, 4))
        for n in range(6)
    ]
    equal, efficient = run("equal", works, cores), run("efficient", works, cores)
    assert mean_turnaround(efficient) < 0.95 * mean_turnaround(equal)
    assert makespan(efficient) <= 1.02 * makespan(equal)


def test_efficient_keeps_jobs_that_scale_for_the_tail():
    works = [
        Work(str(n), 0.0, 40.0, serial, shape(2), known=(1, 2))
        for n, serial in enumerate([0.02, 0.95, 0.95])
    ]
    assert makespan(run("efficient", works, 2)) < 0.85 * makespan(run("equal", works, 2))


@pytest.mark.slow
def test_efficient_finds_out_by_itself():
    works = [Work(str(n), 0.0, 400.0, 0.9 if n else 0.02, shape(16)) for n in range(4)]
    equal, efficient = run("equal", works, 16), run("efficient", works, 16)
    assert efficient["0"].total_seconds < 0.6 * equal["0"].total_seconds
    assert mean_turnaround(efficient) < mean_turnaround(equal)


@pytest.mark.parametrize("inner", ["equal", "efficient", "srpt", "fcfs-strict", "weighted"])
def test_lending_beats_keeping_where_jobs_have_idle_phases(inner):
    works = [Work(str(n), 0.1 * n, 40.0, 0.1, shape(2), idle=8.0, busy=8.0) for n in range(4)]
    lend, keep = run(f"lend+{inner}", works, 2), run(inner, works, 2)
    assert makespan(lend) < 0.8 * makespan(keep)
    assert mean_turnaround(lend) < 0.9 * mean_turnaround(keep)


def test_lending_changes_nothing_where_all_are_busy():
    works = random_arrivals(2, 0, 0.1)
    assert makespan(run("lend+equal", works, 2)) == pytest.approx(
        makespan(run("equal", works, 2)), rel=0.01
    )


WORKLOADS = {
    "five at once": [Work(str(n), 0.0, 20.0 + 7 * n, 0.25, shape(2)) for n in range(5)],
    "random": random_arrivals(2, 1, 0.25),
    "ragged tail": [
        Work(str(n), 0.0, seconds, 0.25, shape(2))
        for n, seconds in enumerate([120.0, 15.0, 15.0, 15.0, 15.0])
    ],
    "some do not scale": [
        Work(str(n), 0.0, 30.0, 0.95 if n % 2 else 0.05, shape(2)) for n in range(5)
    ],
    "idle phases": [Work(str(n), 0.0, 30.0, 0.2, shape(2), idle=5.0, busy=5.0) for n in range(4)],
}


@pytest.mark.parametrize("workload", WORKLOADS)
def test_the_default_is_as_fast_as_the_best_fixed_way(workload):
    works = WORKLOADS[workload]
    one_by_one = makespan(run(ONE_BY_ONE, works, 2))
    static = makespan(run("fcfs-strict", split(works, 1), 2))
    assert makespan(run(DEFAULT, works, 2)) <= 1.02 * min(one_by_one, static)


def test_the_default_beats_fixed_ways_where_it_matters():
    together, ragged = WORKLOADS["five at once"], WORKLOADS["ragged tail"]
    assert makespan(run(DEFAULT, together, 2)) <= 0.9 * makespan(run(ONE_BY_ONE, together, 2))
    static = makespan(run("fcfs-strict", split(ragged, 1), 2))
    # It serves the short ones first, so at its end the long one is alone for a little longer.
    assert makespan(run(DEFAULT, ragged, 2)) <= 0.88 * static
    assert makespan(run("lend+efficient", ragged, 2)) <= 0.85 * static


# Too much work for two cores, without an end as far as the victim can see: it wants
# both cores, and is longer and less important than any other.
STREAM = [
    Work(f"small {n}", 1.0 * n, 2.5, 0.1, Shape(1, 1, 1), priority=1, reports=n % 2 == 0)
    for n in range(150)
]
VICTIM = Work("victim", 5.0, 20.0, 0.1, Shape(2, 2, 2))
STREAM_ENDS = 150.0
STARVE_NOBODY = [
    "equal",
    "weighted",
    "efficient",
    "fcfs-strict",
    "fcfs-max-prop",
    "priority-strict:ageing=20",
    "priority-max-prop:ageing=20",
    "priority-max-prop:ageing=20,preempt=longest",
    "round-robin-strict:quantum=5",
    "round-robin-max-prop:quantum=5",
]
# These let a job wait for longer than this stream lasts, but not for ever.
PATIENT = ["srpt"]
STARVE = [
    "fcfs-always-attend",
    "priority-strict",
    "priority-max-prop",
    "priority-always-attend:ageing=20",
    "round-robin-always-attend",
]


@pytest.mark.slow
@pytest.mark.parametrize("spec", [*STARVE_NOBODY, *(f"lend+{name}" for name in STARVE_NOBODY)])
def test_nobody_starves_where_that_is_claimed(spec):
    assert run(spec, [*STREAM, VICTIM], 2)["victim"].ended < STREAM_ENDS


@pytest.mark.slow
@pytest.mark.parametrize("spec", [*PATIENT, *(f"lend+{name}" for name in PATIENT)])
def test_a_job_is_late_after_ten_minutes_and_three_times_its_length(spec):
    # More work than two cores can do, for half an hour.
    stream = [
        Work(f"small {n}", 12.0 * n, 30.0, 0.1, Shape(1, 1, 1), priority=1, reports=n % 2 == 0)
        for n in range(150)
    ]
    outcome = run(spec, [*stream, VICTIM], 2)["victim"]
    assert outcome.ended > STREAM_ENDS
    # Those that say nothing are not paused for it.
    assert outcome.started <= VICTIM.arrival + 600.0 + 3 * VICTIM.seconds + 60.0


@pytest.mark.parametrize("spec", STARVE)
def test_others_do_starve_here(spec):
    assert run(spec, [*STREAM, VICTIM], 2)["victim"].ended > STREAM_ENDS


def test_every_policy_is_in_one_of_the_lists():
    named = {spec.partition(":")[0] for spec in [*STARVE_NOBODY, *PATIENT, *STARVE]}
    assert named == set(PLAIN)
