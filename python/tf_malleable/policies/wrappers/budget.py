# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Power budget policy: gives jobs fewer cores, or pauses all of them for a while.

A host at half load draws much more than half of its full power. A mean budget is therefore
kept best by switching between two loads that are neighbours on the lower convex hull of the
host's power curve; on most hosts these are none and all. A peak budget leaves no choice but
fewer cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from tf_malleable.model import Allocation, AreaLimit, Cpuset, Grant, Job, Machine, PowerLimit, Shape
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.shares.placement import Layout


class BudgetPolicy:
    """Wraps any policy, and lets it share out only as many cores as the budget allows now.

    A mean budget has a credit, as in a token bucket: it grows while the host draws less than
    the budget, and shrinks while the host draws more. Jobs run with the cores of the upper of
    two loads until the credit is used up, and with those of the lower one (often none: all are
    paused together) until it is full. No window therefore exceeds its budget by more than this
    small credit.

    An area's jobs may have a budget of their own. If they would have more cores than it allows,
    the wrapped policy decides how these jobs alone would share the allowed cores, and then
    decides again for all jobs, with that share as the limit of each of them.

    Not work-conserving while there is a budget; without one it equals the wrapped policy. A mean
    budget above the power of the idle host starves no job if the wrapped policy starves none.

    Args:
        wrapped: Policy that decides for all jobs.
    """

    def __init__(self, wrapped: Policy) -> None:
        self.wrapped = wrapped

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide which CPUs each job gets from now on; see Policy."""
        limit = machine.power
        if limit is None or limit.budget.is_over(now):
            return self._within_areas(jobs, machine, now)
        granted = _cpus(job.grant for job in jobs)
        # Cores set by hand are no longer part of this machine, but count.
        beyond = max(0, limit.shared - len(machine.cpus))
        cap = cap_of(limit, len(granted) + beyond, now)
        cores = max(0, cap.cores - beyond)
        review = _earliest(cap.review_at, limit.budget.until)
        if not cores:
            return Allocation({}, review)
        if cores < len(machine.cpus):
            kept = Layout(machine).shrunk(machine.cpuset, cores)
            machine = machine.without(machine.cpuset - kept)
        decision = self._within_areas(jobs, machine, now)
        return Allocation(decision.grants, _earliest(decision.review_at, review))

    def _within_areas(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide within the budgets of areas."""
        caps = area_caps(machine.areas, jobs, now)
        decision = self.wrapped.allocate(jobs, machine, now)
        # Cores that one area may not have can take another above its cap, so each is checked
        # again. A clipped area stays within its cap, so this ends after as many decisions as
        # there are areas.
        while (area := _above_cap(caps, jobs, decision)) is not None:
            mine = [job for job in jobs if job.area == area]
            counts = self._counts(mine, machine, caps[area].cores, now)
            clipped = (_clipped(job, counts, machine) if job in mine else job for job in jobs)
            jobs = [job for job in clipped if job is not None]
            decision = self.wrapped.allocate(jobs, machine, now)
        reviews = (cap.review_at for cap in caps.values())
        return Allocation(decision.grants, _earliest(decision.review_at, *reviews))

    def _counts(
        self, jobs: Sequence[Job], machine: Machine, cores: int, now: float
    ) -> dict[str, int]:
        """Return how many of `cores` cores each job of an area gets if no other job has any."""
        if not cores:
            return {}
        held = _cpus(job.grant for job in jobs) & machine.cpuset
        if len(held) > cores:
            held = Layout(machine).shrunk(held, cores)
        others = sorted(machine.cpuset - held)
        chosen = held.union(others[: cores - len(held)])
        alone = machine.without(machine.cpuset - chosen)
        grants = self.wrapped.allocate(jobs, alone, now).grants
        return {job: len(grant.cpus) for job, grant in grants.items()}


def _above_cap(caps: Mapping[str, Cap], jobs: Sequence[Job], decision: Allocation) -> str | None:
    """Return the first area whose jobs were granted more cores than its cap; None if none."""
    grants = decision.grants
    for area, cap in caps.items():
        mine = (job.id for job in jobs if job.area == area)
        if len(_cpus(grants[job] for job in mine if job in grants)) > cap.cores:
            return area
    return None


def _clipped(job: Job, counts: Mapping[str, int], machine: Machine) -> Job | None:
    """Return a job that can use no more than its count; None if the count is 0."""
    most = counts.get(job.id, 0)
    if not most:
        return None
    shape = Shape(job.shape.min, min(job.shape.preferred, most), min(job.shape.max, most))
    held = job.grant.own & machine.cpuset
    if len(held) > most:
        return replace(job, shape=shape, grant=Grant(Layout(machine).shrunk(held, most)))
    return replace(job, shape=shape)


def _cpus(grants: Iterable[Grant]) -> Cpuset:
    return frozenset[int]().union(*(grant.cpus for grant in grants))


def keeping(policy: Policy) -> Policy:
    """Return a policy that keeps budgets: this one if it already does."""
    return policy if isinstance(policy, BudgetPolicy) else BudgetPolicy(policy)


class Cap(NamedTuple):
    """Maximum number of cores of all jobs, and when to review it; None for no such time."""

    cores: int
    review_at: float | None = None


def area_caps(limits: Iterable[AreaLimit], jobs: Sequence[Job], now: float) -> dict[str, Cap]:
    """Return the maximum number of shared cores of the jobs of each area.

    Args:
        limits: Limits of the areas; expired ones are ignored.
        jobs: All jobs among which cores are shared out.
        now: Current time.
    """
    caps = {}
    for limit in limits:
        if limit.budget.is_over(now):
            continue
        granted = _cpus(job.grant for job in jobs if job.area == limit.area)
        cap = cap_of(limit, len(granted) + limit.taken, now)
        review = _earliest(cap.review_at, limit.budget.until)
        caps[limit.area] = Cap(max(0, cap.cores - limit.taken), review)
    return caps


def cap_of(limit: PowerLimit, granted: int, now: float) -> Cap:
    """Return the maximum number of cores of all jobs, given the number they have now."""
    if limit.watts(limit.shared) <= limit.budget.watts:
        return Cap(limit.shared)
    if limit.budget.kind == "peak":
        fitting = (k for k in range(limit.shared, 0, -1) if limit.watts(k) <= limit.budget.watts)
        return Cap(next(fitting, 0))
    return _alternating(limit, granted, now)


def _alternating(limit: PowerLimit, granted: int, now: float) -> Cap:
    """Return the cores of one of the two loads that enclose the budget."""
    watts = limit.budget.watts
    levels = limit.levels()
    if levels[0][1] >= watts:
        return Cap(0, now + _WAIT_SECONDS)
    (low, least), (high, most) = next(
        pair for pair in pairwise(levels) if pair[0][1] <= watts < pair[1][1]
    )
    above = granted > low
    drawn = most if above else least
    credit = limit.credit + (watts - drawn) * max(0.0, now - limit.at)
    above = credit > 0 if above else credit >= limit.depth
    if above:
        return Cap(int(high), now + max(0.0, credit) / (most - watts) + _LATE_SECONDS)
    return Cap(int(low), now + (limit.depth - credit) / max(watts - least, 1e-9) + _LATE_SECONDS)


# Delay of a review beyond the computed time: a decision must never be reviewed at once.
_LATE_SECONDS = 0.001
# Time until the next review if other programs alone draw more than the budget.
_WAIT_SECONDS = 1.0


def _earliest(*times: float | None) -> float | None:
    return min((at for at in times if at is not None), default=None)
