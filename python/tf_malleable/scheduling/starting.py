# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Decides which waiting jobs may start, given memory, GPUs and a limit on their number.

Policies share out cores only. So a policy is asked again without the jobs for which
something else is lacking, until all that start fit together. This holds for every policy
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
from tf_malleable.scheduling import decision
from tf_malleable.scheduling.decision import Candidate

# For a job that has waited longer, later ones leave the memory or the GPUs that it lacks.
_PATIENCE_SECONDS = 300.0
# Nothing tells when other programs release memory.
_REVIEW_SECONDS = 1.0


@dataclass(frozen=True)
class Starts:
    """A decision.

    Attributes:
        allocation: The grants of all jobs.
        lacks: What the jobs lack that are held back, by job id.
    """

    allocation: Allocation
    lacks: Mapping[str, Lack]


@dataclass(frozen=True)
class _Room:
    """What is left for jobs that start.

    Attributes:
        supply: What there is in all.
        mem: Memory in bytes, without what jobs that have started will yet use.
        gpus: Number of GPUs.
        jobs: Number of jobs that have started.
    """

    supply: Supply
    mem: float
    gpus: int
    jobs: int

    def lack(self, need: Need) -> Lack | None:
        """Return what a job lacks to start; None if nothing."""
        most = self.supply.most_jobs
        if most is not None and self.jobs >= most:
            return "jobs"
        if need.gpus > self.gpus:
            return "gpus"
        # An estimate must not keep a job waiting for other programs' memory for ever.
        is_alone = self.jobs == 0 and need.basis != "declared"
        if self.supply.mem is None or is_alone:
            return None
        is_risky = need.basis == "unknown" and self.supply.strained
        return "memory" if need.mem > self.mem or is_risky else None

    def after(self, need: Need) -> _Room:
        """Return what is left once a job with this need has started."""
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
    """Return the grants of all jobs, and what others lack.

    Args:
        policy: Shares out the cores.
        candidates: All live jobs.
        need: Returns what a job needs, by its id. Not called unless a job could start.
        supply: What there is beside cores.
        machine: The CPUs to share out.
        now: The time in seconds, on the clock of the jobs' times.
        quotas: What each user may have.

    Raises:
        InvalidAllocationError: The policy's allocation is invalid.
        Exception: Whatever the policy raises.
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
    """Return which jobs do not fit beside the most urgent that start, and why.

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
    """Return which waiting jobs do not fit at all now, and what they lack.

    Jobs that fit, but are behind one that has waited for long, are among them: a stream of
    small jobs must not hold up a large one for ever.
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
        # What would not fit beside other programs either must not keep everybody waiting.
        if lack != "jobs" and is_patient and empty.lack(wanted) is None:
            kept.add(lack)
    return lacks


def _emptied(candidates: Sequence[Candidate], need: Callable[[str], Need], room: _Room) -> _Room:
    """Return what there would be if all jobs that have started had ended."""
    used = sum(need(c.job.id).used for c in candidates if c.job.started is not None)
    supply = room.supply
    return _Room(supply, (supply.mem or 0.0) + used, supply.gpus, 0)
