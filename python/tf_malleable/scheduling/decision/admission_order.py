# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Admission of waiting jobs, given memory, GPUs and a limit on the number of jobs.

Policies share out cores only. A policy is therefore asked again without the jobs that lack
something else, until all that start fit together. This holds for every policy
and for cores set by hand. Jobs that have started keep what they have: only waiting jobs are
held back. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from tf_malleable.model import Allocation, Machine
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


@dataclass(frozen=True)
class _Room:
    """Resources left for jobs that start.

    Attributes:
        supply: Total supply.
        mem: Memory in bytes, without the memory that started jobs have yet to use.
        gpus: Number of GPUs.
        jobs: Number of jobs that have started.
    """

    supply: Supply
    mem: float
    gpus: int
    jobs: int

    def lack(self, need: Need) -> Lack | None:
        """Return the resource that a job lacks to start; None if it lacks nothing."""
        most = self.supply.most_jobs
        if most is not None and self.jobs >= most:
            return "jobs"
        if need.gpus > self.gpus:
            return "gpus"
        # An estimate must not keep a job waiting forever for other programs' memory.
        is_alone = self.jobs == 0 and need.basis != "declared"
        if self.supply.mem is None or is_alone:
            return None
        is_risky = need.basis == "unknown" and self.supply.strained
        return "memory" if need.mem > self.mem or is_risky else None

    def after(self, need: Need) -> _Room:
        """Return the resources left once a job with this need has started."""
        growth = max(0.0, need.mem - need.used)
        return _Room(self.supply, self.mem - growth, self.gpus - need.gpus, self.jobs + 1)


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
    room = _Room(supply, supply.mem or 0.0, supply.gpus, 0)
    for candidate in candidates:
        if candidate.job.started is not None:
            room = room.after(need(candidate.job.id))
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
    for candidate in starting:
        name = candidate.job.id
        lack = room.lack(need(name))
        if lack is None:
            room = room.after(need(name))
        else:
            late[name] = lack
    if late:
        begun = {candidate.job.id for candidate in starting}
        for candidate in candidates:
            name = candidate.job.id
            if _is_waiting(candidate) and name not in begun:
                lack = room.lack(need(name))
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
    kept: set[Lack] = set()
    empty = _emptied(candidates, need, room)
    for candidate in _by_urgency([c for c in candidates if _is_waiting(c)]):
        wanted = need(candidate.job.id)
        lack = room.lack(wanted)
        if lack is None and "memory" in kept:
            lack = "memory"
        elif lack is None and "gpus" in kept and wanted.gpus:
            lack = "gpus"
        if lack is None:
            continue
        lacks[candidate.job.id] = lack
        is_patient = now - candidate.job.submitted >= _PATIENCE_SECONDS
        # A job that would not fit beside other programs either must not hold up all others.
        if lack != "jobs" and is_patient and empty.lack(wanted) is None:
            kept.add(lack)
    return lacks


def _emptied(candidates: Sequence[Candidate], need: Callable[[str], Need], room: _Room) -> _Room:
    """Return the resources that would be left if all started jobs had ended."""
    used = sum(need(c.job.id).used for c in candidates if c.job.started is not None)
    supply = room.supply
    return _Room(supply, (supply.mem or 0.0) + used, supply.gpus, 0)
