# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who lends, how much, to whom, and that it comes back."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tf_malleable.model import NO_GRANT, Allocation, Cpu, Grant, Job, Machine, Shape
from tf_malleable.policies.check import check
from tf_malleable.policies.registry import create

NOW = 100.0
SHAPE = Shape(1, 1, 8)


def runs(
    name: str,
    cpus: set[int],
    used: float | None,
    lent: set[int] | None = None,
    started: float = 1.0,
    shape: Shape = SHAPE,
) -> Job:
    grant = Grant(frozenset(cpus), frozenset(lent or ()))
    return Job(
        name,
        shape,
        submitted=0.0,
        state="running",
        since=started,
        started=started,
        grant=grant,
        used_cpus=used,
    )


def waits(name: str, shape: Shape = SHAPE) -> Job:
    return Job(name, shape, submitted=5.0, since=5.0)


def decide(spec: str, cpus: int, *jobs: Job, now: float = NOW) -> Allocation:
    machine = Machine.flat(cpus)
    allocation = create(spec).allocate(jobs, machine, now)
    check(allocation, jobs, machine)
    return allocation


def grants(spec: str, cpus: int, *jobs: Job) -> dict[str, tuple[set[int], set[int]]]:
    found = decide(spec, cpus, *jobs).grants
    return {name: (set(grant.cpus), set(grant.lent)) for name, grant in found.items()}


def lends(job: Job, cpus: int) -> int:
    """Return how many CPUs a job lends when others want all they can get."""
    return len(decide("lend+fcfs-max-prop", cpus, job, waits("w")).grants[job.id].lent)


def test_a_job_asleep_lends_all_it_has():
    assert grants("lend+equal", 2, runs("a", {0, 1}, used=0.05), waits("b")) == {
        "a": (set(), {0, 1}),
        "b": ({0, 1}, set()),
    }


def test_a_busy_job_lends_nothing():
    shape = Shape(2, 2, 2)
    both = [runs("a", {0, 1}, used=1.9, shape=shape), waits("b")]
    assert grants("lend+equal", 2, *both) == {"a": ({0, 1}, set())}
    assert grants("lend+equal", 2, replace(both[0], used_cpus=None), both[1]) == {
        "a": ({0, 1}, set())
    }


@pytest.mark.parametrize(
    ("used", "lent"), [(0.1, 4), (0.4, 3), (0.9, 2), (1.4, 2), (1.6, 1), (2.5, 1), (2.6, 0)]
)
def test_a_job_keeps_what_it_uses_and_some_more(used, lent):
    assert lends(runs("a", {0, 1, 2, 3}, used=used, shape=Shape(4, 4, 4)), 4) == lent


@pytest.mark.parametrize(
    ("used", "lent"),
    [(0.1, 4), (0.5, 3), (1.3, 2), (1.7, 2), (1.79, 2), (1.81, 0), (2.0, 0)],
)
def test_a_lender_that_needs_what_it_kept_gets_all_back(used, lent):
    assert lends(runs("a", {0, 1}, used, lent={2, 3}, shape=Shape(4, 4, 4)), 4) == lent


@pytest.mark.parametrize(("used", "sleeps"), [(0.0, True), (0.29, True), (0.31, False)])
def test_waking_up_is_seen_although_a_borrower_shares_the_cpu(used, sleeps):
    lender = runs("lender", set(), used, lent={0}, started=1.0)
    borrower = runs("borrower", {0}, 1.0, started=2.0)
    found = grants("lend+equal", 1, borrower, lender)
    assert found == (
        {"lender": (set(), {0}), "borrower": ({0}, set())} if sleeps else {"lender": ({0}, set())}
    )


@pytest.mark.parametrize("inner", ["fcfs-strict", "fcfs-always-attend", "equal", "efficient"])
def test_the_owner_gets_its_cores_back_and_who_no_longer_fits_is_paused(inner):
    shape = Shape(2, 2, 2)
    lender = runs("lender", set(), 0.5, lent={0, 1}, shape=shape)
    borrower = runs("borrower", {0, 1}, 2.0, started=3.0, shape=shape)
    assert grants(f"lend+{inner}", 2, borrower, lender) == {"lender": ({0, 1}, set())}


def test_a_borrower_that_still_fits_goes_on():
    lender = runs("lender", set(), 0.5, lent={0, 1})
    borrower = runs("borrower", {0, 1}, 2.0, started=3.0)
    assert grants("lend+equal", 2, borrower, lender) == {
        "lender": ({0}, set()),
        "borrower": ({1}, set()),
    }


def test_what_nobody_borrows_stays_in_use():
    sleeper = runs("a", {0, 1, 2}, used=0.0)
    assert grants("lend+equal", 3, sleeper) == {"a": ({0, 1, 2}, set())}
    assert grants("lend+equal", 3, sleeper, waits("b", Shape(1, 1, 1))) == {
        "a": ({1, 2}, {0}),
        "b": ({0}, set()),
    }


def test_nothing_is_borrowed_while_idle_cores_suffice():
    asleep, new = runs("a", {0, 1, 2, 3}, 0.0, shape=Shape(1, 4, 4)), waits("b", Shape(1, 4, 4))
    assert grants("lend+equal", 8, asleep, new) == {
        "a": ({0, 1, 2, 3}, set()),
        "b": ({4, 5, 6, 7}, set()),
    }


def test_a_job_that_was_just_resized_grows_at_any_time_into_cores_that_nobody_lends():
    asleep = runs("a", {0, 1}, 0.0, shape=Shape(1, 2, 2))
    resized = replace(runs("b", {2, 3}, 2.0, shape=Shape(1, 4, 4)), resized=NOW - 0.1)
    assert grants("lend+equal", 8, asleep, resized)["b"][0] == {2, 3, 4, 5}


def test_a_job_that_has_just_started_does_not_lend_but_is_looked_at_again():
    jobs = [runs("a", {0}, used=0.0, started=99.5), waits("b")]
    assert grants("lend+equal", 1, *jobs) == {"a": ({0}, set())}
    assert decide("lend+equal", 1, *jobs).review_at == 100.5
    assert decide("lend+equal", 1, *jobs, now=100.5).grants["b"].cpus == {0}


def test_a_sleeping_borrower_lends_on():
    first = runs("first", set(), 0.0, lent={0}, started=1.0)
    second = runs("second", {1}, 1.0, started=2.0)
    third = runs("third", {0}, 0.0, started=3.0)
    found = decide("lend+equal", 2, first, second, third, waits("fourth")).grants
    assert found["first"] == Grant(lent=frozenset({0}))
    assert found["second"] == Grant(frozenset({1}))
    assert found["third"] == Grant(lent=frozenset({1}))
    assert found["fourth"] == Grant(frozenset({0}))


def test_who_cannot_lend_is_awake():
    jobs = [runs("a", set(), 0.0, lent={0}, started=1.0), runs("b", {0}, 0.0, started=2.0)]
    assert grants("lend+equal", 1, *jobs, waits("c")) == {
        "a": (set(), {0}),
        "b": ({0}, set()),
    }


def test_whole_physical_cores_are_lent():
    machine = Machine(tuple(Cpu(id=number, core=number % 2) for number in range(4)))
    lender = runs("a", {0, 1, 2, 3}, used=1.2)
    grant = create("lend+equal").allocate([lender, waits("b")], machine, NOW).grants["a"]
    assert grant == Grant(frozenset({0, 2}), frozenset({1, 3}))


def test_lost_cpus_are_not_lent():
    lender = runs("a", {0}, 0.5, lent={1, 7}, shape=Shape(1, 1, 3))
    found = decide("lend+equal", 3, lender, waits("b", Shape(1, 1, 1))).grants
    assert found["a"].own <= {0, 1, 2}


def test_one_that_sleeps_in_every_way_stays_started():
    sleeper = runs("a", set(), 0.0, lent={0})
    assert decide("lend+equal", 1, sleeper, waits("b")).grants["a"] != NO_GRANT


@pytest.mark.parametrize(("used", "dwell", "lends"), [(0.0, 2.0, {0, 1, 2}), (0.6, 3.0, {2})])
def test_a_job_that_was_just_resized_does_not_begin_to_lend(used, dwell, lends):
    idle = runs("a", {0, 1, 2}, used=used)
    for resized, lent in [(100.0 - dwell, lends), (100.1 - dwell, set())]:
        found = decide("lend+equal", 3, replace(idle, resized=resized), waits("b"))
        assert found.grants["a"].lent == lent
    assert found.review_at == pytest.approx(100.1)


def test_a_lender_gets_its_cores_back_even_if_it_was_just_resized():
    lender = replace(runs("lender", set(), 0.5, lent={0}), resized=99.9)
    borrower = replace(runs("borrower", {0}, 1.0, started=2.0), resized=99.9)
    assert grants("lend+equal", 1, borrower, lender) == {"lender": ({0}, set())}


def test_a_job_that_was_just_resized_does_not_grow_into_lent_cores():
    sleeper = runs("a", {0, 1}, used=0.0)
    busy = replace(runs("b", {2}, used=1.0, started=2.0), resized=99.0)
    found = decide("lend+equal", 3, sleeper, busy)
    assert found.grants["b"].cpus == {2}
    assert found.review_at == 102.0
    assert decide("lend+equal", 3, sleeper, busy, now=102.0).grants["b"].cpus == {0, 1, 2}


def test_without_lenders_a_job_grows_at_any_time():
    busy = replace(runs("b", {2}, used=1.0), resized=99.9)
    assert decide("lend+equal", 3, busy).grants["b"].cpus == {0, 1, 2}
