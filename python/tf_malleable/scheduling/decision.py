# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From all live jobs to an allocation: what people said first, then the policy.

A policy need not know that people set cores by hand or hold jobs back: it gets the
jobs that are left and the machine that is left. Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tf_malleable.model import NO_GRANT, Allocation, Grant, Job, Machine
from tf_malleable.policies.check import check
from tf_malleable.policies.placement import place
from tf_malleable.policies.policy import Policy


@dataclass(frozen=True)
class Candidate:
    """A job, and what people said about it.

    Attributes:
        job: As a policy sees it.
        by_hand: Cores set by a person; None leaves it to the policy.
        held: It must have none now.
    """

    job: Job
    by_hand: int | None
    held: bool


def decide(
    policy: Policy, candidates: Sequence[Candidate], machine: Machine, now: float
) -> Allocation:
    """Return the grants of all jobs.

    Raises:
        InvalidAllocationError: The policy's decision cannot be carried out.
        Exception: Whatever the policy raises.
    """
    free = [candidate for candidate in candidates if not candidate.held]
    counts = _by_hand(free, len(machine.cpus))
    placed = place(counts, [c.job for c in free if c.job.id in counts], machine) if counts else {}
    by_hand = {name: Grant(cpus) for name, cpus in placed.items()}
    jobs = [c.job for c in free if c.by_hand is None]
    if not jobs:
        return Allocation(by_hand)
    taken = frozenset[int]().union(*placed.values())
    left = machine.without(taken) if taken else machine
    allocation = policy.allocate(jobs, left, now)
    check(allocation, jobs, left)
    return Allocation({**allocation.grants, **by_hand}, allocation.review_at)


def _by_hand(candidates: Sequence[Candidate], cpus: int) -> dict[str, int]:
    """Return the cores set by hand, of as many jobs as fit."""
    counts: dict[str, int] = {}
    for candidate in candidates:
        cores = candidate.by_hand
        if cores is not None and cores <= cpus:
            counts[candidate.job.id] = cores
            cpus -= cores
    return counts


@dataclass(frozen=True)
class Change:
    """A job is to have another grant, perhaps none."""

    job: str
    grant: Grant


def changes(
    allocation: Allocation, current: Mapping[str, Grant], unsettled: Collection[str] = ()
) -> list[Change]:
    """Return what differs from the present grants, in the order to carry it out.

    Jobs that lose CPUs come first, so that the others find them free.

    Args:
        allocation: What was decided; a job that it does not name has nothing.
        current: The present grant of each live job, empty ones included.
        unsettled: Jobs without a grant that were seen to go on; told again if they
            still have none.
    """
    wanted = {job: allocation.grants.get(job, NO_GRANT) for job in current}
    found = [
        Change(job, grant)
        for job, grant in wanted.items()
        if grant != current[job] or (not grant and job in unsettled)
    ]
    return sorted(found, key=lambda change: len(change.grant.cpus - current[change.job].cpus))
