# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Lending policy: cores that a job does not use go to others until it needs them again.

Similar to DLB's LeWI: Garcia, Corbalan and Labarta, "LeWI: A Runtime Balancing
Algorithm for Nested Parallelism", ICPP 2009. A job that loads its input or waits for
a disk keeps ownership of its cores while others compute on them.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tf_malleable.model import Allocation, Cpuset, Grant, Job, Machine, Shape
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.shares.placement import Layout, first_started

# CPUs. A job that uses less than _ASLEEP is asleep and lends all its CPUs. When it wakes
# up it shares a CPU with the borrower and gets a half or a third of it, so a usage above
# _AWAKE means that the job wants its CPUs back.
_ASLEEP = 0.2
_AWAKE = 0.3
# CPUs. A job that lends a part keeps _SPARE more than it uses, and wants more once less
# than _SATURATED of the kept CPUs is idle. The gap between the two prevents oscillation.
_SPARE = 0.5
_SATURATED = 0.2
# A job that was just started or resumed is about to use its cores.
_SETTLE_SECONDS = 1.0
# Minimum time after a resize before a job lends or, while others lend, grows. Naps therefore
# resize a job at most twice in this time. A lender gets its cores back at any time. Longer naps
# are worth lending; shorter ones cost more than they gain.
DWELL_SECONDS = 3.0
# Maximum number of resizes lately with which a job grows into cores that another user lends. By
# short naps, that user would otherwise have it resized every two seconds for ever.
_MOST_UNREST = 4.0
# The same for a job that sleeps and lends all its CPUs: its naps are worth more.
ASLEEP_DWELL_SECONDS = 2.0


class LendPolicy:
    """Wraps any policy and lends idle cores.

    Jobs that use clearly less than they have become lenders. The wrapped policy decides
    for all other jobs, on all CPUs that the lenders do not use. A lender that wants more
    simply takes part again, with all CPUs it owns: policies serve running jobs in order of
    first start, so it gets its cores back at once from jobs that started later, and a
    borrower that no longer fits is paused. A job that sleeps on borrowed cores lends them
    on. If their owner is lending them, the job lends other cores instead, so that each CPU is
    lent by at most one job. Nothing is borrowed while all other jobs have what they can use.

    A minimum dwell bounds how often napping jobs are resized. After a resize, a job does not
    begin to lend for three seconds (two if it sleeps), and does not grow into lent cores for
    three; for longer if another user lends them, and that has ended soon again and again.

    Work-conserving like the wrapped policy, counting as used the cores that a lender may still
    need and those that a job cannot take because it was just resized. Starves no job if the
    wrapped policy starves none.

    Args:
        wrapped: Policy for the jobs that do not lend.
    """

    def __init__(self, wrapped: Policy) -> None:
        self.wrapped = wrapped

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide which CPUs each job gets from now on; see Policy."""
        loans, settled_at = _loans(jobs, machine, now)
        lenders = {loan.job.id for loan in loans}
        kept = frozenset[int]().union(*(loan.kept for loan in loans))
        others = [_awake(job) for job in jobs if job.id not in lenders]
        usable = machine.without(kept.union(*(loan.lent for loan in loans))) if loans else machine
        if loans and sum(job.shape.max for job in others) > len(usable.cpus):
            usable = machine.without(kept) if kept else machine
            others, dwelt_at = _dwelling(others, {loan.job.user for loan in loans}, now)
            settled_at = _earliest(settled_at, dwelt_at)
        decision = self.wrapped.allocate(others, usable, now)
        taken = kept.union(*(grant.cpus for grant in decision.grants.values()))
        grants = dict(decision.grants)
        for loan in loans:
            # The lender may use the CPUs that no job borrows.
            grants[loan.job.id] = Grant(
                cpus=loan.kept | (loan.lent - taken), lent=loan.lent & taken
            )
        return Allocation(grants, _earliest(decision.review_at, settled_at))


def _earliest(*times: float | None) -> float | None:
    return min((at for at in times if at is not None), default=None)


@dataclass(frozen=True)
class _Loan:
    job: Job
    kept: Cpuset
    lent: Cpuset


def _awake(job: Job) -> Job:
    """Return the job as one that owns all its cores and lends none."""
    return replace(job, grant=Grant(job.grant.own)) if job.grant.lent else job


def _dwelling(
    jobs: Sequence[Job], lenders: Collection[int | None], now: float
) -> tuple[list[Job], float | None]:
    """Return the jobs, just resized ones unable to grow, and when the first may grow again."""
    found: list[Job] = []
    dwelt_at: float | None = None
    for job in jobs:
        if job.state == "running":
            until = _resized(job) + DWELL_SECONDS
            if len(lenders) > 1 or job.user not in lenders:
                until = max(until, job.calm_at(_MOST_UNREST))
            own = max(job.shape.min, len(job.grant.own))
            if now < until and own < job.shape.max:
                dwelt_at = _earliest(dwelt_at, until)
                shape = Shape(job.shape.min, min(job.shape.preferred, own), own)
                job = replace(job, shape=shape)
        found.append(job)
    return found, dwelt_at


def _resized(job: Job) -> float:
    return -math.inf if job.resized is None else job.resized


def _loans(jobs: Sequence[Job], machine: Machine, now: float) -> tuple[list[_Loan], float | None]:
    """Return all loans, and when the next job will have settled enough to lend."""
    loans: list[_Loan] = []
    settled_at: float | None = None
    lendable = _Lendable(machine)
    for job in first_started(job for job in jobs if job.state == "running"):
        count = _still_needed(job)
        if count is None:
            continue
        dwell = DWELL_SECONDS if count else ASLEEP_DWELL_SECONDS
        settles = max(job.since + _SETTLE_SECONDS, _resized(job) + dwell)
        if not job.grant.lent and now < settles:
            settled_at = _earliest(settled_at, settles)
            continue
        loan = lendable.loan(job, count)
        if loan is not None:
            loans.append(loan)
    return loans, settled_at


class _Lendable:
    """The CPUs that are not lent yet."""

    def __init__(self, machine: Machine) -> None:
        self._layout = Layout(machine)
        self._machine = machine.cpuset
        self._kept: set[int] = set()
        self._left = set(machine.cpuset)

    def loan(self, job: Job, count: int) -> _Loan | None:
        """Return the loan of a job that keeps `count` of its CPUs; None if impossible."""
        usable = (job.grant.cpus & self._machine) - self._kept
        if len(usable) < count:
            return None
        kept = self._layout.shrunk(usable, count)
        size = min(len(job.grant.own), job.shape.max) - count
        own = (job.grant.own & self._left) - kept
        if len(own) != size:
            others = (cpu for cpu in self._left if cpu not in own and cpu not in kept)
            own = frozenset([*sorted(own), *islice(others, size)][:size])
        if len(own) < size:
            return None
        self._kept |= kept
        self._left -= own
        return _Loan(job, kept, own)


def _still_needed(job: Job) -> int | None:
    """Return the number of cores a job keeps if it lends; None if it should not lend."""
    used, own = job.used_cpus, len(job.grant.own)
    if used is None:
        return None
    if used < _ASLEEP:
        return 0
    needed = math.ceil(used + _SPARE)
    if job.grant.lent:
        held = len(job.grant.cpus)
        if used > (held - _SATURATED if held else _AWAKE):
            return None
        needed = min(needed, held)
    return needed if needed < own else None
