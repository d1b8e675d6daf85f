# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Admission of waiting jobs, given memory, GPUs, users' quotas of them, and a limit on jobs.

Policies share out cores only. A policy is therefore asked again without the jobs that lack
something else, until all that start fit together. This holds for every policy
and for cores set by hand. Jobs that have started keep what they have: only waiting jobs are
held back. Pure.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tf_malleable.model import Allocation, Job, Machine
from tf_malleable.model.need import Lack, Need, Supply
from tf_malleable.model.quota import NO_QUOTAS, Quotas
from tf_malleable.policies.policy import Policy
from tf_malleable.scheduling.decision import decision
from tf_malleable.scheduling.decision.decision import Candidate

# Once a job has waited this long, later jobs leave it the memory or GPUs that it lacks.
_PATIENCE_SECONDS = 300.0
# There is no notification when other programs release memory.
_REVIEW_SECONDS = 1.0


@dataclass(frozen=True)
class Starts:
    """A decision on starts.

    Attributes:
        allocation: Grants of all jobs.
        lacks: Resource that each held-back job lacks, by job id.
    """

    allocation: Allocation
    lacks: Mapping[str, Lack]


@dataclass
class _Taken:
    """What the started jobs of one user have.

    Attributes:
        mem: Memory that they need or use, whichever is more, in bytes.
        gpus: Number of GPUs.
        jobs: Number of jobs.
    """

    mem: float = 0.0
    gpus: int = 0
    jobs: int = 0


@dataclass
class _Room:
    """Resources left for jobs that start.

    Attributes:
        supply: Total supply.
        quotas: Quotas of the users.
        mem: Memory in bytes, without the memory that started jobs have yet to use.
        gpus: Number of GPUs.
        jobs: Number of jobs that have started.
        taken: What the users' started jobs have, by user.
    """

    supply: Supply
    quotas: Quotas
    mem: float
    gpus: int
    jobs: int = 0
    taken: defaultdict[int | None, _Taken] = field(default_factory=lambda: defaultdict(_Taken))

    def copy(self) -> _Room:
        """Return a copy that can be changed on its own."""
        taken = defaultdict(_Taken, {user: replace(had) for user, had in self.taken.items()})
        return replace(self, taken=taken)

    def lack(self, job: Job, need: Need) -> Lack | None:
        """Return the resource that a job lacks to start; None if it lacks nothing."""
        most = self.supply.most_jobs
        if most is not None and self.jobs >= most:
            return "jobs"
        if lack := self._quota_lack(job, need):
            return lack
        if need.gpus > self.gpus:
            return "gpus"
        # An estimate must not keep a job waiting forever for other programs' memory.
        is_alone = self.jobs == 0 and need.basis != "declared"
        if self.supply.mem is None or is_alone:
            return None
        is_risky = need.basis == "unknown" and self.supply.strained
        return "memory" if need.mem > self.mem or is_risky else None

    def _quota_lack(self, job: Job, need: Need) -> Lack | None:
        quota, taken = self.quotas.of(job.user), self.taken[job.user]
        if quota.max_gpus is not None and need.gpus and taken.gpus + need.gpus > quota.max_gpus:
            return "gpu quota"
        # Nor must an estimate keep a job waiting for more than its user may ever have.
        is_alone = taken.jobs == 0 and need.basis != "declared"
        if quota.max_mem is None or is_alone or taken.mem + need.mem <= quota.max_mem:
            return None
        return "memory quota"

    def start(self, job: Job, need: Need) -> None:
        """Take what a job with this need takes once it has started."""
        self.mem -= max(0.0, need.mem - need.used)
        self.gpus -= need.gpus
        self.jobs += 1
        taken = self.taken[job.user]
        taken.mem += max(need.mem, need.used)
        taken.gpus += need.gpus
        taken.jobs += 1


def decide(
    policy: Policy,
    candidates: Sequence[Candidate],
    need: Callable[[str], Need],
    supply: Supply,
    machine: Machine,
    now: float,
    quotas: Quotas = NO_QUOTAS,
) -> Starts:
    """Return the grants of all jobs, and what the held-back ones lack.

    Args:
        policy: Policy that shares out the cores.
        candidates: All live jobs.
        need: Returns the need of a job, by its id. Not called unless a job could start.
        supply: Supply of other resources than cores.
        machine: The CPUs to share out.
        now: The time in seconds, on the clock of the jobs' times.
        quotas: Quotas of the users.

    Raises:
        InvalidAllocationError: The policy's allocation is invalid.
        Exception: The policy raised it.
    """
    allocation = decision.decide(policy, candidates, machine, now, quotas)
    if not _starting(candidates, allocation):
        return Starts(allocation, {})
    room = _Room(supply, quotas, supply.mem or 0.0, supply.gpus)
    for candidate in candidates:
        if candidate.job.started is not None:
            room.start(candidate.job, need(candidate.job.id))
    lacks: dict[str, Lack] = {}
    while late := _too_many(candidates, allocation, need, room):
        if not lacks:
            lacks |= _lacking(candidates, need, room, now)
        lacks |= late
        barred = [c._replace(barred=c.barred or c.job.id in lacks) for c in candidates]
        allocation = decision.decide(policy, barred, machine, now, quotas)
    if "memory" in lacks.values():
        review = min(allocation.review_at or now + _REVIEW_SECONDS, now + _REVIEW_SECONDS)
        allocation = replace(allocation, review_at=review)
    return Starts(allocation, lacks)


def _is_waiting(candidate: Candidate) -> bool:
    return candidate.job.started is None and not candidate.barred


def _starting(candidates: Sequence[Candidate], allocation: Allocation) -> list[Candidate]:
    """Return the waiting jobs that an allocation starts, the most urgent first."""
    grants = allocation.grants
    return _by_urgency([c for c in candidates if _is_waiting(c) and grants.get(c.job.id)])


def _by_urgency(candidates: Sequence[Candidate]) -> list[Candidate]:
    return sorted(candidates, key=lambda c: (-c.job.priority, c.job.submitted))


def _too_many(
    candidates: Sequence[Candidate],
    allocation: Allocation,
    need: Callable[[str], Need],
    room: _Room,
) -> dict[str, Lack]:
    """Return the jobs that do not fit beside the most urgent starting ones, and what they lack.

    These include waiting jobs that would be next: if all that start fit, there are none.
    """
    late: dict[str, Lack] = {}
    starting = _starting(candidates, allocation)
    room = room.copy()
    for candidate in starting:
        name = candidate.job.id
        lack = room.lack(candidate.job, need(name))
        if lack is None:
            room.start(candidate.job, need(name))
        else:
            late[name] = lack
    if late:
        begun = {candidate.job.id for candidate in starting}
        for candidate in candidates:
            name = candidate.job.id
            if _is_waiting(candidate) and name not in begun:
                lack = room.lack(candidate.job, need(name))
                if lack is not None:
                    late[name] = lack
    return late


def _lacking(
    candidates: Sequence[Candidate], need: Callable[[str], Need], room: _Room, now: float
) -> dict[str, Lack]:
    """Return the waiting jobs that do not fit at all now, and what they lack.

    These include jobs that fit, but are behind one that has waited too long: a stream of
    small jobs must not hold up a large one forever.
    """
    lacks: dict[str, Lack] = {}
    # With the user, as nobody waits for another user's quota.
    kept: set[tuple[Lack, int | None]] = set()
    empty = _emptied(candidates, need, room)
    for candidate in _by_urgency([c for c in candidates if _is_waiting(c)]):
        job, wanted = candidate.job, need(candidate.job.id)
        lack = room.lack(job, wanted)
        if lack is None:
            lack = next(
                (each for each in _needed(wanted) if (each, _whose(each, job)) in kept), None
            )
        if lack is None:
            continue
        lacks[job.id] = lack
        is_patient = now - job.submitted >= _PATIENCE_SECONDS
        # A job that would not fit beside other programs either must not hold up all others.
        if lack != "jobs" and is_patient and empty.lack(job, wanted) is None:
            kept.add((lack, _whose(lack, job)))
    return lacks


def _needed(need: Need) -> tuple[Lack, ...]:
    """Return the resources that a job may have to leave to jobs before it."""
    memory: tuple[Lack, ...] = ("memory", "memory quota")
    return (*memory, "gpus", "gpu quota") if need.gpus else memory


def _whose(lack: Lack, job: Job) -> int | None:
    """Return the user whose jobs share the resource that a job lacks; None for all users."""
    return job.user if lack in ("memory quota", "gpu quota") else None


def _emptied(candidates: Sequence[Candidate], need: Callable[[str], Need], room: _Room) -> _Room:
    """Return the resources that would be left if all started jobs had ended."""
    used = sum(need(c.job.id).used for c in candidates if c.job.started is not None)
    return _Room(room.supply, room.quotas, (room.supply.mem or 0.0) + used, room.supply.gpus)
