# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Objective policy: services with a promised latency get the cores for it before all other jobs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tf_malleable.model import Allocation, Grant, Job, Machine
from tf_malleable.model.quota import NO_QUOTAS, Quotas
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.shares.placement import place
from tf_malleable.policies.wrappers.budget import BudgetPolicy

# Part of the objective from which a service gets more cores.
_PRESSED_SHARE: Final = 0.8
# Time after a resize in which its effect cannot be seen, in seconds: that of a report.
_REACTION_SECONDS: Final = 0.1
# Time for which a service must be calm before it gives a core up, in seconds; longer after resizes.
CALM_SECONDS: Final = 5.0
_MOST_UNREST: Final = 4.0
# Time until it is looked at again if it is too busy for that, in seconds.
_REVIEW_SECONDS: Final = 1.0
# Part of its cores that a service may keep busy if it had one fewer: queues grow long above.
_BUSY_SHARE: Final = 0.75


@dataclass(frozen=True)
class Taken:
    """Cores and jobs of a user beside those that a policy decides for.

    Attributes:
        cores: Number of cores.
        jobs: Number of jobs that have these cores.
    """

    cores: int = 0
    jobs: int = 0


_NOTHING: Final = Taken()
_Share = Callable[[Policy, Quotas, Mapping[int | None, Taken]], Policy]


class SloPolicy:
    """Wraps any policy; it decides for the jobs without an objective, on what services leave.

    A service starts with its minimum. It gets as many cores again as it has, up to its maximum, as
    soon as the tail of its latencies or the queue of its requests comes near its objective. It
    gives up one core after five calm seconds, or up to twenty if it was resized lately, if it would
    keep the others busy for less than three quarters of the time.

    Services come first, in order of arrival: each that fits has its minimum, and then the oldest
    has what it needs. Other jobs get what is left, and may be paused. While several users have
    jobs, the services of a user together get no more than the user's share, or its quota.

    Where the kernel lets services preempt others, they share their cores with these, which so
    compute between two requests. A service then needs the cores that it would keep busy for three
    quarters of the time, and has as many more as it may have, unless its user has a quota of cores:
    these cost nothing, and a rise of the load needs no decision.

    Equals the wrapped policy while no job has an objective. Otherwise it is work-conserving except
    for the cores of services that share none, and may starve jobs without an objective.

    Args:
        wrapped: Policy for the other jobs.
        quotas: Weight, maximum cores and maximum running jobs of each user.
        taken: Cores and jobs of users beside the jobs to decide for; they count.
        share: Returns a policy that shares cores among users, given these two for all jobs beside
            those that it decides for.
    """

    def __init__(
        self,
        wrapped: Policy,
        quotas: Quotas = NO_QUOTAS,
        taken: Mapping[int | None, Taken] | None = None,
        share: _Share = lambda policy, quotas, taken: policy,
    ) -> None:
        self.wrapped = wrapped
        self._quotas = quotas
        self._taken = taken or {}
        self._share = share

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide which CPUs each job gets from now on; see Policy."""
        services = [job for job in jobs if job.load is not None]
        others = [job for job in jobs if job.load is None]
        users = {job.user for job in jobs}
        counts, most = self._counts(services, users, machine, now)
        placed = place(most, [job for job in services if job.id in most], machine)
        grants = {job: Grant(cpus) for job, cpus in placed.items()}
        used = frozenset[int]().union(*placed.values())
        calm_at = None if machine.preempts else _calm_at_first(services, now)
        left = machine.without(used) if used else machine
        if machine.preempts and sum(job.shape.max for job in others) > len(left.cpus):
            left = machine
        if not others or not left.cpus:
            return Allocation(grants, calm_at)
        policy = self._share(self.wrapped, self._quotas, self._with(services, counts))
        decision = policy.allocate(others, left, now)
        if left is machine:
            taken = frozenset[int]().union(*(grant.own for grant in decision.grants.values()))
            grants = {job: Grant(cpus, lent=cpus & taken) for job, cpus in placed.items()}
        reviews = [at for at in (decision.review_at, calm_at) if at is not None]
        return Allocation({**decision.grants, **grants}, min(reviews, default=None))

    def _counts(
        self, services: Sequence[Job], users: Collection[int | None], machine: Machine, now: float
    ) -> tuple[dict[str, int], dict[str, int]]:
        """Return the number of cores that each service needs, as far as it gets any; and has."""
        cores = len(machine.cpus)
        left = {user: self._most(user, users, cores) for user in users}
        slots = {user: self._slots(user) for user in users}
        counts: dict[str, int] = {}
        oldest_first = sorted(services, key=lambda job: job.submitted)
        for job in oldest_first:
            if job.shape.min <= min(cores, left[job.user]) and slots[job.user] > 0:
                counts[job.id] = job.shape.min
                cores -= job.shape.min
                left[job.user] -= job.shape.min
                slots[job.user] -= 1

        def enlarge(counts: dict[str, int], job: Job, wanted: int) -> None:
            nonlocal cores
            more = min(wanted - counts[job.id], cores, left[job.user])
            counts[job.id] += more
            cores -= more
            left[job.user] -= more

        running = [job for job in oldest_first if job.id in counts]
        for job in running:
            enlarge(counts, job, _busy(job) if machine.preempts else needed(job, now))
        most = dict(counts)
        for job in running if machine.preempts else ():
            if self._quotas.of(job.user).max_cores is None:
                enlarge(most, job, job.shape.max)
        return counts, most

    def _most(self, user: int | None, users: Collection[int | None], cores: int) -> int:
        """Return how many cores a user's services may have together."""
        quota, taken = self._quotas.of(user), self._taken.get(user, _NOTHING)
        most = cores
        if len(users) > 1:
            total = sum(self._quotas.of(each).weight for each in users)
            most = max(1, int(cores * quota.weight / total))
        if quota.max_cores is not None:
            most = min(most, quota.max_cores - taken.cores)
        return max(0, most)

    def _slots(self, user: int | None) -> float:
        """Return how many of a user's services may run."""
        most, taken = self._quotas.of(user).max_running, self._taken.get(user, _NOTHING)
        return math.inf if most is None else most - taken.jobs

    def _with(self, services: Sequence[Job], counts: Mapping[str, int]) -> dict[int | None, Taken]:
        """Return what users have beside the jobs without an objective."""
        cores: Counter[int | None] = Counter({u: each.cores for u, each in self._taken.items()})
        number: Counter[int | None] = Counter({u: each.jobs for u, each in self._taken.items()})
        for job in services:
            if job.id in counts:
                cores[job.user] += counts[job.id]
                number[job.user] += 1
        return {user: Taken(cores[user], number[user]) for user in number}


def promising(policy: Policy) -> Policy:
    """Return a policy that keeps objectives: this one if it already does.

    A budget covers services, too.
    """
    if isinstance(policy, BudgetPolicy):
        return BudgetPolicy(promising(policy.wrapped))
    return policy if isinstance(policy, SloPolicy) else SloPolicy(policy)


def needed(job: Job, now: float) -> int:
    """Return the number of cores that a service needs now, within its shape."""
    shape, load, own = job.shape, job.load, len(job.grant.own)
    assert load is not None
    if job.state != "running" or not own:
        return shape.min
    if job.grant.cpus & job.grant.lent:
        return _busy(job)  # It had the others only as long as they cost nothing.
    wanted = own
    if now - (-math.inf if job.resized is None else job.resized) >= _REACTION_SECONDS:
        if load.worst > _PRESSED_SHARE * load.slo.seconds:
            wanted = 2 * own
        elif now >= _calm_at(job) and (job.used_cpus or 0.0) <= _BUSY_SHARE * (own - 1):
            wanted = own - 1
    return max(shape.min, min(wanted, shape.max))


def _busy(job: Job) -> int:
    """Return the number of cores that a service would keep busy for _BUSY_SHARE of the time."""
    used = 0.0 if job.state != "running" else job.used_cpus or 0.0
    return max(job.shape.min, min(math.ceil(used / _BUSY_SHARE), job.shape.max))


def _calm_at_first(services: Sequence[Job], now: float) -> float | None:
    """Return when the first service is to be looked at again; None for never."""
    at = min((_review_at(job, now) for job in services), default=math.inf)
    return at if at < math.inf else None


def _review_at(job: Job, now: float) -> float:
    """Return when a service may give a core up, or is to be looked at again; inf for never."""
    at = _calm_at(job)
    return max(at, now + _REVIEW_SECONDS) if at > -math.inf else math.inf


def _calm_at(job: Job) -> float:
    """Return when a service will have been calm for long enough to give a core up."""
    assert job.load is not None
    if job.state != "running" or len(job.grant.own) <= job.shape.min:
        return -math.inf
    since = max(job.load.calm_since, job.since)
    return since + CALM_SECONDS * min(_MOST_UNREST, max(1.0, job.unrest))
