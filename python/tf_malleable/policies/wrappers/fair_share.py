# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fair share: divides cores among users before any policy divides them among jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tf_malleable.model import Allocation, Grant, Job, Machine, Shape
from tf_malleable.model.quota import NO_QUOTAS, Quota, Quotas
from tf_malleable.policies.check import check
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.queues.backfill import OVERTAKING_SECONDS
from tf_malleable.policies.shares.core_counts import CountingPolicy, Decision, placed
from tf_malleable.policies.shares.max_min_shares import fill
from tf_malleable.policies.shares.placement import first_started
from tf_malleable.policies.wrappers.budget import BudgetPolicy
from tf_malleable.policies.wrappers.lend import LendPolicy
from tf_malleable.policies.wrappers.slo import SloPolicy, Taken

# Minimum run time of a user's turn, if the policy may pause jobs and not all users fit.
_TURN_SECONDS = 10.0
_REVIEW_SECONDS = 1.0
# Number of rounds in which cores that users leave idle are shared among the others.
_ROUNDS = 3


_NOTHING = Taken()


def shared_fairly(policy: Policy, quotas: Quotas, taken: Mapping[int | None, Taken]) -> Policy:
    """Return a policy that shares cores among users first, and then decides as `policy` does.

    Idle cores are lent to any user's jobs. A power budget covers all users together. Services with
    an objective come first, within their users' shares.
    """
    if isinstance(policy, BudgetPolicy):
        return BudgetPolicy(shared_fairly(policy.wrapped, quotas, taken))
    if isinstance(policy, SloPolicy):
        return SloPolicy(policy.wrapped, quotas, taken, shared_fairly)
    if isinstance(policy, LendPolicy):
        return LendPolicy(FairSharePolicy(policy.wrapped, quotas, taken))
    return FairSharePolicy(policy, quotas, taken)


class FairSharePolicy:
    """Wraps any policy; it decides for the jobs of each user as if the user's share were all.

    Shares are weighted max-min fair, see `filling.fill`: no user gets more than the user's jobs
    can use, and the rest is shared among the others. The number of a user's jobs makes no
    difference. Only the core counts of the policy's decision are used; `placement` then chooses
    the CPUs, so that jobs keep theirs.

    No running job loses cores that the policy would not take from it. A user above the share
    therefore starts no more jobs while another user waits, and shares are reached as running
    jobs end. Of users without running jobs, the one that waits longest goes first. If that
    user's first job does not fit, others go on starting jobs up to their shares for ten minutes,
    and then no more before it. If the policy may pause jobs, users who do not all fit take
    turns instead.

    A job that needs more cores than its user's share is overtaken by that user's other jobs for
    ten minutes, too.

    Work-conserving like the wrapped policy, except for cores kept for a user who waits. Starves
    no user; among the jobs of a user, starvation is that of the wrapped policy.

    Args:
        wrapped: Policy that decides for the jobs of a user.
        quotas: Weight, maximum cores and maximum running jobs of each user.
        taken: Cores and jobs of users beside the jobs to decide for; they count.
    """

    def __init__(
        self,
        wrapped: Policy,
        quotas: Quotas = NO_QUOTAS,
        taken: Mapping[int | None, Taken] | None = None,
    ) -> None:
        self._wrapped = wrapped
        self._quotas = quotas
        self._taken = taken or {}

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide which CPUs each job gets from now on; see Policy."""
        users: dict[int | None, list[Job]] = {}
        for job in jobs:
            users.setdefault(job.user, []).append(job)
        if len(users) < 2 and not any(_is_limited(self._quotas.of(user)) for user in users):
            return self._wrapped.allocate(jobs, machine, now)
        policy = self._wrapped
        if not isinstance(policy, CountingPolicy):
            policy = _Counted(policy, machine)
        cores = len(machine.cpus)
        parts = [
            _Part(mine, self._quotas.of(user), self._taken.get(user, _NOTHING), cores)
            for user, mine in users.items()
        ]
        return placed(_divide(policy, parts, cores, now), jobs, machine)


def _is_limited(quota: Quota) -> bool:
    return quota.max_cores is not None or quota.max_running is not None


class _Part:
    """The jobs of one user.

    Attributes:
        jobs: Jobs that fit into the quota.
        running: Running ones of `jobs`, in order of first start.
        queue: Waiting and paused ones of `jobs`.
        taken: Cores and jobs of the user beside them.
        weight: Weight of the user.
        kept: Cores that running jobs cannot lose.
        least: Minimum number of cores of the user.
        most: Number of cores that the user can use.
        limit: Number of cores that the user can use, as far as the policy uses them.
        drains: True if no more jobs of the user start.
        asked: Number of cores that the policy was last asked to share out.
        answer: Decision of the policy on these cores.
    """

    def __init__(self, jobs: Sequence[Job], quota: Quota, taken: Taken, cores: int) -> None:
        most = cores if quota.max_cores is None else min(cores, quota.max_cores - taken.cores)
        self._slots = None
        if quota.max_running is not None:
            self._slots = max(0, quota.max_running - taken.jobs)
        self.jobs = [job for job in jobs if job.shape.min <= most and self._slots != 0]
        started = first_started(job for job in self.jobs if job.state == "running")
        self.running = started[: self._slots]
        self.queue = [job for job in self.jobs if job.state != "running"]
        self.taken = taken
        self.weight = quota.weight
        self.kept = 0
        self.least = 0
        largest = sorted((job.shape.max for job in self.jobs), reverse=True)[: self._slots]
        self.most = self.limit = min(most, sum(largest))
        self.drains = False
        self.asked = 0
        self.answer = Decision({})

    @property
    def used(self) -> int:
        """Number of cores that the user's jobs get."""
        return sum(self.answer.cores.values())

    def keep(self, kept: Mapping[str, int]) -> None:
        """Note the cores that running jobs cannot lose, by job id."""
        self.kept = min(self.limit, sum(kept.get(job.id, 0) for job in self.running))

    def entry(self, preempts: bool) -> int:
        """Return the number of cores with which the user can begin."""
        if preempts:
            return min(job.shape.min for job in self.running or self.jobs)
        return _first(self.queue or self.jobs).shape.min

    def waited(self, now: float) -> float:
        """Return the seconds for which none of the user's jobs has run."""
        return 0.0 if self.running else now - min(job.since for job in self.jobs)

    def is_in_turn(self, now: float) -> bool:
        """Return whether the user's turn has begun only recently."""
        return any(now < job.since + _TURN_SECONDS for job in self.running)

    def is_overtaking(self, cores: int, now: float) -> bool:
        """Return whether a job that needs more than these cores has been overtaken too long."""
        first = _first(self.queue) if self.queue and self.kept else None
        return (
            first is not None
            and first.shape.min > cores
            and now >= first.since + OVERTAKING_SECONDS
        )

    def ask(self, policy: CountingPolicy, cores: int, now: float) -> None:
        """Let the policy share out these cores."""
        jobs = [job for job in self.jobs if job.state == "running"] if self.drains else self.jobs
        decision = policy.decide(jobs, cores, now)
        given = [job for job, count in decision.cores.items() if count]
        if self._slots is not None and len(given) > self._slots:
            if not policy.preempts:
                started = {job.id for job in self.running}
                given.sort(key=lambda job: job not in started)
            chosen = set(given[: self._slots])
            decision = policy.decide([job for job in jobs if job.id in chosen], cores, now)
        self.asked, self.answer = cores, decision

    def as_job(self, name: str) -> Job:
        """Return the part as one job, whose cores are those of all its jobs."""
        beside = self.taken.cores
        least = beside + self.least
        own = frozenset[int]().union(*(job.grant.own for job in self.running))
        shape = Shape(least, least, max(least, beside + self.limit))
        return Job(name, shape, 0.0, grant=Grant(own))


def _first(jobs: Sequence[Job]) -> Job:
    """Return the first job: paused ones by start, then waiting ones by arrival."""
    return min(
        jobs,
        key=lambda job: (1, job.submitted) if job.started is None else (0, job.started),
    )


def _divide(policy: CountingPolicy, parts: Sequence[_Part], cores: int, now: float) -> Decision:
    """Return how many of `cores` cores each job gets."""
    parts = [part for part in parts if part.jobs]
    if not policy.preempts:
        running = first_started(job for part in parts for job in part.running)
        kept = policy.keep(running, cores)
        for part in parts:
            part.keep(kept)
    served = _serve(policy, parts, cores, now)
    blocked = [part for part in parts if part not in served]
    is_urgent = any(part.waited(now) >= OVERTAKING_SECONDS for part in blocked)
    weights = sum(part.weight for part in parts)
    for part in served:
        is_over = part.kept * weights >= cores * part.weight
        part.drains = bool(blocked and part.kept and (is_urgent or is_over))
    _ask(policy, served, cores, now)
    _offer(policy, served, cores, now)
    reviews = [part.answer.review_at for part in served]
    if blocked and policy.preempts:
        reviews.append(now + _REVIEW_SECONDS)
    counts = {job: count for part in served for job, count in part.answer.cores.items()}
    return Decision(counts, min((at for at in reviews if at is not None), default=None))


def _serve(policy: CountingPolicy, parts: Sequence[_Part], cores: int, now: float) -> list[_Part]:
    """Return the users who get cores, each with its minimum."""
    # While users take turns, none waits longer than the turns of all others. A user who does
    # is kept from a turn by jobs that replace each other sooner than turns end.
    longest = max((part.waited(now) for part in parts), default=0.0)
    is_orderly = longest < _TURN_SECONDS * len(parts)

    def rank(part: _Part) -> tuple[bool, float]:
        stays = part.kept > 0 or (policy.preempts and is_orderly and part.is_in_turn(now))
        return (not stays, -part.waited(now))

    served: list[_Part] = []
    for part in sorted(parts, key=rank):
        part.least = part.kept or part.entry(policy.preempts)
        if part.least <= cores:
            cores -= part.least
            served.append(part)
        elif policy.preempts or part.waited(now) >= OVERTAKING_SECONDS:
            break
    return served


def _ask(policy: CountingPolicy, parts: Sequence[_Part], cores: int, now: float) -> None:
    """Let the policy share out each user's share; idle cores go to the others."""
    for _ in range(_ROUNDS):
        for part, share in zip(parts, _shares(parts, cores), strict=True):
            part.drains = part.drains or part.is_overtaking(share, now)
            if not part.used <= share <= part.asked:
                part.ask(policy, share, now)
        idle = [part for part in parts if part.used < part.asked]
        if not idle or not any(part.used == part.asked < part.limit for part in parts):
            break
        for part in idle:
            part.limit = max(part.least, part.used)


def _offer(policy: CountingPolicy, parts: Sequence[_Part], cores: int, now: float) -> None:
    """Offer the idle cores to one user after the other, together with the user's share.

    A user who left a smaller rest idle may have a next job that needs exactly these cores.
    """
    idle = cores - sum(part.used for part in parts)
    for part in sorted(parts, key=lambda part: part.used / part.weight):
        more = min(idle, part.most - part.used)
        if more <= 0:
            continue
        before, answer = part.used, part.answer
        part.ask(policy, before + more, now)
        if part.used > before:
            idle -= part.used - before
        else:
            part.answer = answer


def _shares(parts: Sequence[_Part], cores: int) -> list[int]:
    """Return the cores of each user, in the same order."""
    users = [part.as_job(str(index)) for index, part in enumerate(parts)]
    total = cores + sum(part.taken.cores for part in parts)
    counts = fill(users, [part.weight for part in parts], total)
    return [counts[user.id] - part.taken.cores for user, part in zip(users, parts, strict=True)]


class _Counted(CountingPolicy):
    """A policy that chooses CPUs itself, asked for core counts only.

    Args:
        policy: Policy to ask. If it may pause jobs for others, it has an attribute `preempts`.
        machine: All CPUs.
    """

    def __init__(self, policy: Policy, machine: Machine) -> None:
        self._policy = policy
        self._machine = machine
        self.preempts = bool(getattr(policy, "preempts", False))

    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of `cores` cores each job gets, those it lends included."""
        own = frozenset[int]().union(*(job.grant.own for job in jobs))
        cpus = sorted(self._machine.cpus, key=lambda cpu: cpu.id not in own)
        machine = Machine(tuple(cpus[:cores]))
        allocation = self._policy.allocate(jobs, machine, now)
        check(allocation, jobs, machine)
        counts = {job: len(grant.own) for job, grant in allocation.grants.items()}
        return Decision(counts, allocation.review_at)
