# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Each order and each way to share, in small cases worked out by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tf_malleable.model import Grant, Job, Machine, Shape
from tf_malleable.policies.registry import create

NOW = 100.0


def waits(name: str, least: int, preferred: int, most: int, **about: float) -> Job:
    submitted = about.pop("submitted", 0.0)
    job = Job(name, Shape(least, preferred, most), submitted=submitted, since=submitted)
    return replace(job, **about)


def runs(name: str, least: int, preferred: int, most: int, has: int, **about: float) -> Job:
    """CPUs are dealt out by `counts`, so that jobs do not overlap."""
    job = waits(name, least, preferred, most)
    grant = Grant(frozenset(range(has)))
    return replace(job, state="running", grant=grant, **{"started": 1.0, "since": 1.0, **about})


def paused(name: str, least: int, preferred: int, most: int, **about: float) -> Job:
    job = waits(name, least, preferred, most)
    return replace(job, state="paused", **{"started": 1.0, "since": 50.0, **about})


def dealt(jobs: list[Job]) -> list[Job]:
    first, apart = 0, []
    for job in jobs:
        cpus = frozenset(range(first, first + len(job.grant.cpus)))
        first += len(cpus)
        apart.append(replace(job, grant=Grant(cpus)))
    return apart


def counts(spec: str, cpus: int, *jobs: Job, now: float = NOW) -> dict[str, int]:
    allocation = create(spec).allocate(dealt(list(jobs)), Machine.flat(cpus), now)
    return {name: len(grant.cpus) for name, grant in allocation.grants.items()}


def review(spec: str, cpus: int, *jobs: Job) -> float | None:
    return create(spec).allocate(dealt(list(jobs)), Machine.flat(cpus), NOW).review_at


def test_strict_gives_exactly_what_is_preferred():
    assert counts("fcfs-strict", 8, waits("a", 1, 3, 8), waits("b", 2, 4, 4)) == {"a": 3, "b": 4}


def test_strict_lets_nobody_pass_the_first():
    jobs = [waits("a", 1, 3, 8), waits("b", 1, 2, 8), waits("c", 1, 1, 1)]
    assert counts("fcfs-strict", 4, *jobs) == {"a": 3}


def test_strict_never_resizes():
    jobs = [runs("a", 1, 4, 8, has=3), runs("b", 1, 1, 8, has=2)]
    assert counts("fcfs-strict", 8, *jobs) == {"a": 3, "b": 2}


def test_strict_is_content_with_the_whole_machine():
    assert counts("fcfs-strict", 4, waits("a", 2, 6, 8)) == {"a": 4}


@pytest.mark.parametrize("sharing", ["strict", "max-prop", "always-attend"])
def test_a_job_too_large_for_the_machine_keeps_nobody_waiting(sharing):
    jobs = [waits("huge", 5, 5, 5), waits("a", 1, 4, 4)]
    assert counts(f"fcfs-{sharing}", 4, *jobs) == {"a": 4}


def test_max_prop_shares_as_preferred():
    jobs = [waits("a", 1, 4, 99), waits("b", 1, 2, 99), waits("c", 1, 2, 2)]
    assert counts("fcfs-max-prop", 17, *jobs) == {"a": 10, "b": 5, "c": 2}


def test_max_prop_lets_as_many_run_as_fit():
    jobs = [
        runs("a", 1, 4, 4, has=4),
        waits("b", 2, 4, 4),
        waits("c", 2, 2, 2),
        waits("d", 1, 1, 1),
    ]
    assert counts("fcfs-max-prop", 4, *jobs) == {"a": 2, "b": 2}


def test_max_prop_lets_nobody_pass_the_first():
    jobs = [runs("a", 2, 2, 2, has=2), waits("b", 3, 3, 3), waits("c", 1, 1, 1)]
    assert counts("fcfs-max-prop", 4, *jobs) == {"a": 2}


def test_always_attend_starts_with_what_there_is_and_shrinks_nobody():
    jobs = [
        runs("a", 1, 2, 8, has=5),
        waits("b", 1, 4, 4),
        waits("c", 2, 2, 2),
        waits("d", 1, 2, 2),
    ]
    assert counts("fcfs-always-attend", 6, *jobs) == {"a": 5, "b": 1}
    assert counts("fcfs-always-attend", 10, *jobs) == {"a": 5, "b": 4, "d": 1}


def test_always_attend_grows_the_first_when_nobody_waits():
    jobs = [runs("a", 1, 2, 4, has=2), runs("b", 1, 1, 8, has=1, started=2.0)]
    assert counts("fcfs-always-attend", 6, *jobs) == {"a": 4, "b": 2}
    assert counts("fcfs-always-attend", 6, *jobs, waits("c", 4, 4, 4)) == {"a": 2, "b": 1}


def test_on_a_machine_too_small_the_latest_lose_first():
    jobs = [runs("new", 2, 3, 4, has=3, started=9.0), runs("old", 2, 3, 4, has=3, started=2.0)]
    assert counts("fcfs-always-attend", 5, *jobs) == {"old": 3, "new": 2}
    assert counts("fcfs-always-attend", 3, *jobs) == {"old": 3}
    assert counts("fcfs-max-prop", 3, *jobs) == {"old": 3}
    assert counts("fcfs-strict", 5, *jobs) == {"old": 3}


@pytest.mark.parametrize("order", ["fcfs", "priority", "round-robin:quantum=7"])
def test_paused_jobs_go_before_waiting_ones_of_the_same_rank(order):
    name, colon, option = order.partition(":")
    jobs = [waits("a", 1, 1, 1, since=50.0), paused("b", 1, 1, 1)]
    assert counts(f"{name}-strict{colon}{option}", 1, *jobs) == {"b": 1}


def test_priority_goes_first():
    jobs = [waits("a", 1, 1, 1, priority=1), waits("b", 1, 1, 1, priority=2)]
    assert counts("priority-strict", 1, *jobs) == {"b": 1}


def test_waiting_earns_priority():
    old = waits("old", 1, 1, 1, submitted=0.0, priority=1)
    new = waits("new", 1, 1, 1, submitted=90.0, priority=5)
    assert counts("priority-strict:ageing=26", 1, old, new) == {"new": 1}
    assert counts("priority-strict:ageing=20", 1, old, new) == {"old": 1}


def test_running_is_not_waiting():
    victim = runs("ran", 1, 1, 1, has=1, run_seconds=80.0)
    head = waits("new", 1, 1, 1, submitted=70.0)
    spec = "priority-strict:ageing=10,preempt=longest"
    assert counts(spec, 1, victim, head) == {"new": 1}
    assert counts(spec, 1, replace(victim, run_seconds=60.0), head) == {"ran": 1}


def test_without_preempt_nobody_is_paused():
    jobs = [runs("a", 1, 2, 2, has=2), waits("b", 1, 2, 2, priority=9)]
    assert counts("priority-strict", 2, *jobs) == {"a": 2}


def test_victims_are_less_important_and_chosen_as_asked():
    jobs = [
        runs("small", 1, 1, 1, has=1, run_seconds=10.0),
        runs("long", 1, 2, 2, has=2, run_seconds=30.0),
        runs("important", 1, 1, 1, has=1, run_seconds=99.0, priority=5),
        waits("head", 1, 1, 1, priority=5),
        waits("urgent", 1, 1, 1, priority=4),
    ]
    longest = counts("priority-strict:preempt=longest", 4, *jobs)
    assert longest == {"small": 1, "important": 1, "head": 1, "urgent": 1}
    smallest = counts("priority-strict:preempt=smallest", 4, *jobs[:4])
    assert smallest == {"long": 2, "important": 1, "head": 1}


def test_nobody_is_paused_if_that_is_not_enough():
    jobs = [
        runs("a", 1, 1, 1, has=1),
        runs("b", 1, 3, 3, has=3, priority=9),
        waits("head", 2, 2, 2, priority=5),
    ]
    assert counts("priority-strict:preempt=longest", 4, *jobs) == {"a": 1, "b": 3}


def test_victims_too_few_for_one_job_are_paused_for_a_smaller_one():
    jobs = [
        runs("R", 4, 4, 4, has=4, priority=100),
        runs("V", 4, 4, 4, has=4),
        waits("H1", 8, 8, 8, priority=10),
        waits("H2", 4, 4, 4, priority=9),
    ]
    for preempt in ("longest", "smallest"):
        spec = f"priority-always-attend:preempt={preempt}"
        assert counts(spec, 8, *jobs) == {"R": 4, "H2": 4}
        # A job pauses nobody who is as important.
        assert counts(spec, 8, *jobs[:3], replace(jobs[3], priority=0)) == {"R": 4, "V": 4}


def test_the_next_point_is_reviewed():
    jobs = [runs("a", 1, 1, 1, has=1), waits("b", 1, 1, 1, submitted=53.0)]
    assert review("priority-strict:ageing=10,preempt=longest", 1, *jobs) == pytest.approx(103.0)
    assert review("priority-strict:ageing=10", 1, *jobs) is None
    assert review("priority-strict:ageing=10,preempt=longest", 2, *jobs) is None


def test_a_quantum_ends_when_others_wait():
    jobs = [
        runs("a", 1, 1, 1, has=1, since=85.0),
        runs("b", 1, 1, 1, has=1, since=95.0),
        waits("c", 1, 1, 1),
    ]
    assert counts("round-robin-strict", 2, *jobs) == {"b": 1, "c": 1}
    assert counts("round-robin-strict", 2, *jobs[:2]) == {"a": 1, "b": 1}
    assert counts("round-robin-strict:quantum=20", 2, *jobs) == {"a": 1, "b": 1}
    assert review("round-robin-strict:quantum=20", 2, *jobs) == 105.0
    assert review("round-robin-strict", 2, *jobs[:2]) is None


def test_who_was_paused_last_waits_longest():
    jobs = [
        paused("a", 1, 1, 1, since=90.0),
        paused("b", 1, 1, 1, since=80.0),
        waits("c", 1, 1, 1, submitted=85.0),
    ]
    assert counts("round-robin-max-prop", 2, *jobs) == {"b": 1, "c": 1}


def test_equal_and_weighted_share_alike_and_by_weight():
    jobs = [
        waits("a", 1, 1, 99, weight=2.0),
        waits("b", 1, 50, 99, weight=1.0),
        waits("c", 3, 3, 99, weight=0.1),
    ]
    assert counts("equal", 12, *jobs) == {"a": 4, "b": 4, "c": 4}
    assert counts("weighted", 12, *jobs) == {"a": 6, "b": 3, "c": 3}
