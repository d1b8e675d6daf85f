# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Decides the allocation of all live jobs: manual settings first, then the policy.

Policies need not know about cores set by hand or barred jobs: they get only the remaining
jobs and CPUs. Pure.
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
    """A job and its manual settings.

    Attributes:
        job: The job as a policy sees it.
        by_hand: Number of cores set by a person; None leaves it to the policy, as does a
            number that is more than what is left.
        barred: It must not have any cores now, for whatever reason.
    """

    job: Job
    by_hand: int | None
    barred: bool


def decide(
    policy: Policy, candidates: Sequence[Candidate], machine: Machine, now: float
) -> Allocation:
    """Return the grants of all jobs.

    Raises:
        InvalidAllocationError: The policy's allocation is invalid.
        Exception: Whatever the policy raises.
    """
    free = [candidate for candidate in candidates if not candidate.barred]
    counts = _by_hand(free, len(machine.cpus))
    placed = place(counts, [c.job for c in free if c.job.id in counts], machine) if counts else {}
    by_hand = {name: Grant(cpus) for name, cpus in placed.items()}
    jobs = [c.job for c in free if c.job.id not in counts]
    if not jobs:
        return Allocation(by_hand)
    taken = frozenset[int]().union(*placed.values())
    left = machine.without(taken) if taken else machine
    allocation = policy.allocate(jobs, left, now)
    check(allocation, jobs, left)
    return Allocation({**allocation.grants, **by_hand}, allocation.review_at)


def _by_hand(candidates: Sequence[Candidate], cpus: int) -> dict[str, int]:
    """Return the numbers of cores set by hand, for as many jobs as fit.

    A restarted controller may share out fewer CPUs than were set by hand. Jobs that do not
    fit are left to the policy.
    """
    counts: dict[str, int] = {}
    for candidate in candidates:
        cores = candidate.by_hand
        if cores is not None and cores <= cpus:
            counts[candidate.job.id] = cores
            cpus -= cores
    return counts


@dataclass(frozen=True)
class Change:
    """A new grant for a job, possibly empty."""

    job: str
    grant: Grant


def changes(
    allocation: Allocation, current: Mapping[str, Grant], unsettled: Collection[str] = ()
) -> list[Change]:
    """Return the changes from the current grants, in the order to apply them.

    Jobs that lose CPUs come first, so that these are free when others get them.

    Args:
        allocation: The decision; a job that is missing from it gets nothing.
        current: The current grant of each live job, possibly empty.
        unsettled: Jobs that run although they have no grant; they are told again if they
            still get none.
    """
    wanted = {job: allocation.grants.get(job, NO_GRANT) for job in current}
    found = [
        Change(job, grant)
        for job, grant in wanted.items()
        if grant != current[job] or (not grant and job in unsettled)
    ]
    return sorted(found, key=lambda change: len(change.grant.cpus - current[change.job].cpus))
