# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Allocation of all live jobs: manual settings first, then the policy.

Policies need not know about cores set by hand, barred jobs or users: they receive only the
remaining jobs and CPUs, and those of one user at a time. Pure.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from tf_malleable.model import NO_GRANT, Allocation, Cpuset, Grant, Job, Machine
from tf_malleable.model.quota import NO_QUOTAS, Quotas
from tf_malleable.policies.check import check
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.shares.placement import place
from tf_malleable.policies.wrappers.budget import BudgetPolicy, Cap, area_caps, cap_of
from tf_malleable.policies.wrappers.fair_share import shared_fairly
from tf_malleable.policies.wrappers.slo import Taken, promising
from tf_malleable.policies.wrappers.steady import steadied


class Candidate(NamedTuple):  # A decision creates a thousand.
    """A job and its manual settings.

    Attributes:
        job: Job as a policy sees it.
        by_hand: Number of cores set by a person. None leaves it to the policy, and so does a
            number above the cores that are left.
        barred: True if the job must not have any cores now, for whatever reason.
    """

    job: Job
    by_hand: int | None
    barred: bool


def decide(
    policy: Policy,
    candidates: Sequence[Candidate],
    machine: Machine,
    now: float,
    quotas: Quotas = NO_QUOTAS,
) -> Allocation:
    """Return the grants of all jobs.

    Args:
        policy: Policy that decides for the jobs of each user.
        candidates: All jobs.
        machine: The CPUs to share out.
        now: The time in seconds, on the same clock as the jobs' times.
        quotas: Quotas of the users.

    Raises:
        InvalidAllocationError: The policy's allocation is invalid.
        Exception: The policy raised it.
    """
    free = [candidate for candidate in candidates if not candidate.barred]
    if any(candidate.job.load is not None for candidate in free):
        policy = promising(policy)
    cap = _cap(policy, free, machine, now)
    areas = _area_caps(policy, free, machine, now)
    counts = _by_hand(free, min(len(machine.cpus), cap.cores), quotas, areas)
    placed = place(counts, [c.job for c in free if c.job.id in counts], machine) if counts else {}
    by_hand = {name: Grant(cpus) for name, cpus in placed.items()}
    jobs = [c.job for c in free if c.job.id not in counts]
    if not jobs:
        reviews = (each.review_at for each in (cap, *areas.values()))
        review = min((at for at in reviews if at is not None), default=None)
        return Allocation(by_hand, review)
    left = _left(machine, placed, free) if placed else machine
    beside = _taken([c.job for c in free if c.job.id in counts], counts)
    several = len({candidate.job.user for candidate in free}) > 1
    jobs, calm_at = steadied(jobs, now, several_users=several)
    allocation = shared_fairly(policy, quotas, beside).allocate(jobs, left, now)
    check(allocation, jobs, left)
    times = [at for at in (allocation.review_at, calm_at) if at is not None]
    return Allocation({**allocation.grants, **by_hand}, min(times, default=None))


def _cap(policy: Policy, candidates: Sequence[Candidate], machine: Machine, now: float) -> Cap:
    """Return the cap on cores set by hand: a manual setting does not exceed a budget."""
    limit = machine.power
    if not isinstance(policy, BudgetPolicy) or limit is None or limit.budget.is_over(now):
        return Cap(len(machine.cpus))
    granted = frozenset[int]().union(*(c.job.grant.cpus for c in candidates))
    return cap_of(limit, len(granted), now)


def _area_caps(
    policy: Policy, candidates: Sequence[Candidate], machine: Machine, now: float
) -> dict[str, Cap]:
    """Return this cap for the jobs of each area that has a budget."""
    if not isinstance(policy, BudgetPolicy) or not machine.areas:
        return {}
    return area_caps(machine.areas, [candidate.job for candidate in candidates], now)


def _left(
    machine: Machine, placed: Mapping[str, Cpuset], candidates: Sequence[Candidate]
) -> Machine:
    """Return the machine without the CPUs of manual settings, which count for their areas."""
    left = machine.without(frozenset[int]().union(*placed.values()))
    if not left.areas:
        return left
    taken: Counter[str | None] = Counter()
    for candidate in candidates:
        taken[candidate.job.area] += len(placed.get(candidate.job.id, ()))
    return replace(left, areas=tuple(replace(a, taken=taken[a.area]) for a in left.areas))


def _by_hand(
    candidates: Sequence[Candidate], cpus: int, quotas: Quotas, areas: Mapping[str, Cap]
) -> dict[str, int]:
    """Return the numbers of cores set by hand, for as many jobs as fit.

    A restarted controller may share out fewer CPUs than were set by hand. No user gets more by
    hand than the user's quota or, while others have jobs, the user's share, and the jobs of an
    area do not get more than its budget allows. Jobs that do not fit are left to the policy.
    """
    if all(candidate.by_hand is None for candidate in candidates):
        return {}
    users = {candidate.job.user for candidate in candidates}
    left = {user: _most_by_hand(user, users, cpus, quotas) for user in users}
    slots = {user: quotas.of(user).max_running for user in users}
    allowed = {area: cap.cores for area, cap in areas.items()}
    counts: dict[str, int] = {}
    for candidate in candidates:
        cores, user, area = candidate.by_hand, candidate.job.user, candidate.job.area or ""
        free = slots[user]
        most = min(cpus, left[user], allowed.get(area, cpus))
        if cores is not None and cores <= most and free != 0:
            counts[candidate.job.id] = cores
            cpus -= cores
            if area in allowed:
                allowed[area] -= cores
            left[user] -= cores
            slots[user] = None if free is None else free - 1
    return counts


def _most_by_hand(
    user: int | None, users: Collection[int | None], cpus: int, quotas: Quotas
) -> int:
    """Return the maximum number of cores that the jobs of a user may have by hand."""
    quota = quotas.of(user)
    most = cpus if quota.max_cores is None else min(cpus, quota.max_cores)
    if len(users) < 2:
        return most
    weights = sum(quotas.of(each).weight for each in users)
    return min(most, max(1, int(cpus * quota.weight / weights)))


def _taken(jobs: Sequence[Job], counts: Mapping[str, int]) -> dict[int | None, Taken]:
    """Return the cores and jobs of each user that are set by hand."""
    number = Counter(job.user for job in jobs)
    cores: Counter[int | None] = Counter()
    for job in jobs:
        cores[job.user] += counts[job.id]
    return {user: Taken(cores[user], number[user]) for user in number}


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
        allocation: The decision; a job that is missing from it gets no CPUs.
        current: Current grant of each live job, possibly empty.
        unsettled: Jobs that run although they have no grant; if they still get none, the
            change is included again.
    """
    wanted = {job: allocation.grants.get(job, NO_GRANT) for job in current}
    found = [
        Change(job, grant)
        for job, grant in wanted.items()
        if (grant is not current[job] and grant != current[job]) or (not grant and job in unsettled)
    ]
    return sorted(found, key=lambda change: len(change.grant.cpus - current[change.job].cpus))
