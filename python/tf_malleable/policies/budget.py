# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Keeps a power budget by giving jobs fewer cores, or by pausing all of them for a while.

A host at half load draws much more than half of its full power. So a mean is kept best by
switching between two loads that are neighbours on the lower convex hull of the host's power
curve; on most hosts these are none and all. A peak leaves no choice but fewer cores.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import NamedTuple

from tf_malleable.model import Allocation, AreaLimit, Cpuset, Grant, Job, Machine, PowerLimit, Shape
from tf_malleable.policies.placement import Layout
from tf_malleable.policies.policy import Policy


class BudgetPolicy:
    """Wraps any policy, and lets it share out only as many cores as the budget allows now.

    For a mean there is a credit, as in a token bucket: it grows while the host draws less than
    the budget, and shrinks while it draws more. Jobs run with the cores of the upper of two
    loads until it is used up, and with those of the lower one (often none: all are paused
    together) until it is full. So no window has more than its budget and this small credit.

    An area's jobs may have a budget of their own. If they would have more cores than it allows,
    the wrapped policy decides how these jobs alone would share so many, and then decides again
    for all, with no more than that for each of them.

    Not work-conserving while there is a budget; without one it is the wrapped policy. A mean
    above what the idle host draws starves nobody if the wrapped policy starves nobody.

    Args:
        wrapped: Decides for all jobs.
    """

    def __init__(self, wrapped: Policy) -> None:
        self.wrapped = wrapped

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide which CPUs each job gets from now on; see Policy."""
        limit = machine.power
        if limit is None or limit.budget.is_over(now):
            return self._within_areas(jobs, machine, now)
        granted = _cpus(job.grant for job in jobs)
        # What was set by hand is no longer on this machine, and counts.
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
        # What one area may not have can take another above its cap, so each is looked at again.
        # A clipped one stays within its cap, so this ends after as many decisions as areas.
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
        """Return how many of `cores` cores each job of an area has if nobody else has any."""
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
    """Return the first area whose jobs were granted more cores than its cap, if there is one."""
    grants = decision.grants
    for area, cap in caps.items():
        mine = (job.id for job in jobs if job.area == area)
        if len(_cpus(grants[job] for job in mine if job in grants)) > cap.cores:
            return area
    return None


def _clipped(job: Job, counts: Mapping[str, int], machine: Machine) -> Job | None:
    """Return a job as if it could use no more than its count; None if that is none."""
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
    """Return a policy that keeps budgets: this one if it does."""
    return policy if isinstance(policy, BudgetPolicy) else BudgetPolicy(policy)


class Cap(NamedTuple):
    """How many cores jobs may have in all, and when to look again; None for no such time."""

    cores: int
    review_at: float | None = None


def area_caps(limits: Iterable[AreaLimit], jobs: Sequence[Job], now: float) -> dict[str, Cap]:
    """Return how many cores the jobs of each area may have of those that are shared out.

    Args:
        limits: Of the areas; those that have expired do not count.
        jobs: All jobs among which cores are shared out.
        now: The time.
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
    """Return how many cores jobs may have in all, given how many they have."""
    if limit.watts(limit.shared) <= limit.budget.watts:
        return Cap(limit.shared)
    if limit.budget.kind == "peak":
        fitting = (k for k in range(limit.shared, 0, -1) if limit.watts(k) <= limit.budget.watts)
        return Cap(next(fitting, 0))
    return _alternating(limit, granted, now)


def _alternating(limit: PowerLimit, granted: int, now: float) -> Cap:
    """Return the cores of one of the two loads between which the budget is."""
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


# A decision is never reviewed at once; this moment decides about nothing but that.
_LATE_SECONDS = 0.001
# What is no job draws more than the budget.
_WAIT_SECONDS = 1.0


def _earliest(*times: float | None) -> float | None:
    return min((at for at in times if at is not None), default=None)
