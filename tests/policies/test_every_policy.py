# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What holds for every registered policy, whatever it is asked; and what each claims."""

from __future__ import annotations

import copy

import pytest
from hypothesis import HealthCheck, given, settings

from tests.support.policy_situations import NOW, PLAIN, SPECS, Situation, carried_out, situations
from tf_malleable.model import Job, Machine, Shape
from tf_malleable.policies.check import check
from tf_malleable.policies.queues.speedup import fit
from tf_malleable.policies.registry import create

MANY = settings(
    max_examples=25,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
PREEMPTIVE = ("srpt", "round-robin", "preempt")
# What a policy says of CPUs that nobody uses; one that says nothing is not here.
CONSERVES = {
    "equal": "running and next",
    "weighted": "running and next",
    "max-prop": "running and next",
    "efficient": "gaining and next",
    "always-attend": "running unless waiting, and all",
    "srpt": "gaining and next",
}


def claim(spec: str) -> str | None:
    name = spec.removeprefix("lend+").partition(":")[0]
    return next((CONSERVES[end] for end in CONSERVES if name.endswith(end)), None)


def test_every_policy_makes_a_claim_but_strict_ones():
    assert [name for name in PLAIN if claim(name) is None] == [
        "fcfs-strict",
        "priority-strict",
        "round-robin-strict",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
@MANY
@given(situation=situations())
def test_allocations_can_be_carried_out(spec: str, situation: Situation):
    jobs, machine = list(situation.jobs), situation.machine
    before = copy.deepcopy(jobs)
    policy = create(spec)
    allocation = policy.allocate(jobs, machine, NOW)
    check(allocation, jobs, machine)
    assert allocation.review_at is None or allocation.review_at > NOW
    assert jobs == before
    assert policy.allocate(jobs, machine, NOW) == allocation
    assert create(spec).allocate(jobs, machine, NOW) == allocation


@pytest.mark.slow
@pytest.mark.parametrize("spec", [s for s in SPECS if not any(p in s for p in PREEMPTIVE)])
@MANY
@given(situation=situations(settled=True))
def test_running_jobs_keep_min(spec: str, situation: Situation):
    allocation = create(spec).allocate(situation.jobs, situation.machine, NOW)
    for job in situation.jobs:
        if job.state == "running":
            assert len(allocation.grants[job.id].own) >= job.shape.min


@pytest.mark.slow
@pytest.mark.parametrize("spec", SPECS)
@MANY
@given(situation=situations())
def test_decisions_settle_while_time_stands_still(spec: str, situation: Situation):
    policy = create(spec)
    jobs: list[Job] = list(situation.jobs)
    grants = []
    for _ in range(8):
        allocation = policy.allocate(jobs, situation.machine, NOW)
        jobs = carried_out(jobs, allocation, NOW)
        grants.append(allocation.grants)
    assert grants[-1] == grants[-2]


@pytest.mark.slow
@pytest.mark.parametrize("spec", [spec for spec in SPECS if claim(spec)])
@MANY
@given(situation=situations())
def test_work_conserving_as_claimed(spec: str, situation: Situation):
    jobs, machine = situation.jobs, situation.machine
    grants = create(spec).allocate(jobs, machine, NOW).grants
    idle = len(machine.cpus) - len(frozenset().union(*(grant.cpus for grant in grants.values())))
    if not idle:
        return
    waiting = [job for job in jobs if job.id not in grants and job.shape.min <= len(machine.cpus)]
    growing = [
        job
        for job in jobs
        if job.id in grants
        and len(grants[job.id].own) < job.shape.max
        and not (spec.startswith("lend+") and job.state == "running" and job.used_cpus is not None)
    ]
    claimed = claim(spec)
    assert claimed is not None
    if claimed.startswith("gaining"):
        for job in growing:
            curve, cores = fit(job.rates), len(grants[job.id].own)
            assert curve.speedup(cores + 1) <= curve.speedup(cores) + 1e-9
    elif "unless waiting" not in claimed or not waiting:
        assert not growing
    if claimed.endswith("all"):
        assert all(job.shape.min > idle for job in waiting)
    else:
        assert not waiting or any(job.shape.min > idle for job in waiting)


def starts(spec: str, later: float, priority: int) -> str:
    """Return which of two jobs starts: the first, or one that came so much later."""
    one = Shape(1, 1, 1)
    first = Job("first", one, submitted=0.0, since=0.0)
    second = Job("second", one, submitted=later, since=later, priority=priority)
    (name,) = create(spec).allocate([first, second], Machine.flat(1), NOW).grants
    return name


@pytest.mark.parametrize("spec", SPECS)
def test_priority_means_something_under_every_policy(spec: str):
    assert starts(spec, 5.0, 0) == "first"
    assert starts(spec, 5.0, 1) == "second"
    assert starts(spec, -5.0, -2) == "first"


@pytest.mark.parametrize("spec", ["equal", "weighted", "efficient", "fcfs-strict", "fcfs-max-prop"])
def test_a_point_of_priority_is_worth_a_minute(spec: str):
    assert starts(spec, 59.0, 1) == "second"
    assert starts(spec, 61.0, 1) == "first"
    assert starts(spec, 119.0, 2) == "second"
