# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Keeps a power budget by giving jobs fewer cores, or by pausing all of them for a while.

A host at half load draws much more than half of its full power. So a mean is kept best by
switching between two loads that are neighbours on the lower convex hull of the host's power
curve; on most hosts these are none and all. A peak leaves no choice but fewer cores.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from tf_malleable.model import Allocation, Job, Machine, PowerLimit
from tf_malleable.policies.placement import Layout
from tf_malleable.policies.policy import Policy


class BudgetPolicy:
    """Wraps any policy, and lets it share out only as many cores as the budget allows now.

    For a mean there is a credit, as in a token bucket: it grows while the host draws less than
    the budget, and shrinks while it draws more. Jobs run with the cores of the upper of two
    loads until it is used up, and with those of the lower one (often none: all are paused
    together) until it is full. So no window has more than its budget and this small credit.

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
            return self.wrapped.allocate(jobs, machine, now)
        granted = frozenset[int]().union(*(job.grant.cpus for job in jobs))
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
        decision = self.wrapped.allocate(jobs, machine, now)
        return Allocation(decision.grants, _earliest(decision.review_at, review))


def keeping(policy: Policy) -> Policy:
    """Return a policy that keeps budgets: this one if it does."""
    return policy if isinstance(policy, BudgetPolicy) else BudgetPolicy(policy)


class Cap(NamedTuple):
    """How many cores jobs may have in all, and when to look again; None for no such time."""

    cores: int
    review_at: float | None = None


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
