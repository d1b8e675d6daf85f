# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cores that a job does not use are lent to others until it wants them back.

In the sense of DLB's LeWI: Garcia, Corbalan and Labarta, "LeWI: A Runtime Balancing
Algorithm for Nested Parallelism", ICPP 2009. A job that loads its input or waits for
a disk keeps its cores by right and others compute on them meanwhile.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice

from tf_malleable.model import Allocation, Cpuset, Grant, Job, Machine
from tf_malleable.policies.placement import Layout, first_started
from tf_malleable.policies.policy import Policy

# CPUs. A job asleep lends all it has when it uses less than the first number. Awake
# it shares a CPU with a borrower, of which it gets a half or a third, so that using
# more than the second number means that it wants more.
_ASLEEP = 0.2
_AWAKE = 0.3
# CPUs. A job that lends a part keeps this much more than it uses; when less than the
# second number of what it kept is idle, it wants more. Between the two nothing moves.
_SPARE = 0.5
_SATURATED = 0.2
# A job that has just been started or resumed is about to do something.
_SETTLE_SECONDS = 1.0


class LendPolicy:
    """Any policy, and idle cores are lent.

    Jobs that use clearly less than they have are left out, and the wrapped policy
    shares out the other jobs on all CPUs that these do not use. A lender that wants
    more is simply back among the others, with all it owns: policies serve running
    jobs in order of first start, so it gets its cores back from later ones at once,
    and a borrower that does not fit any more is paused. A job that sleeps on
    borrowed cores lends them on; where these are the lender's, it lends others in
    their place, so that each CPU is lent by one job at most.

    Work-conserving as the wrapped policy, counting what a lender may still need as
    used. Starves nobody if the wrapped policy starves nobody.

    Args:
        wrapped: Decides about the jobs that do not lend.
    """

    def __init__(self, wrapped: Policy) -> None:
        self._wrapped = wrapped

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide which CPUs each job gets from now on; see Policy."""
        loans, settled_at = _loans(jobs, machine, now)
        lenders = {loan.job.id for loan in loans}
        kept = frozenset[int]().union(*(loan.kept for loan in loans))
        decision = self._wrapped.allocate(
            [_awake(job) for job in jobs if job.id not in lenders],
            machine.without(kept) if kept else machine,
            now,
        )
        taken = kept.union(*(grant.cpus for grant in decision.grants.values()))
        grants = dict(decision.grants)
        for loan in loans:
            # What nobody borrows the lender may as well use.
            grants[loan.job.id] = Grant(
                cpus=loan.kept | (loan.lent - taken), lent=loan.lent & taken
            )
        reviews = [at for at in (decision.review_at, settled_at) if at is not None]
        return Allocation(grants, min(reviews, default=None))


@dataclass(frozen=True)
class _Loan:
    job: Job
    kept: Cpuset
    lent: Cpuset


def _awake(job: Job) -> Job:
    """Return the job as one that owns all of its cores and lends none."""
    return replace(job, grant=Grant(job.grant.own)) if job.grant.lent else job


def _loans(jobs: Sequence[Job], machine: Machine, now: float) -> tuple[list[_Loan], float | None]:
    """Return who lends what, and when the next job has settled enough to lend."""
    loans: list[_Loan] = []
    settled_at: float | None = None
    lendable = _Lendable(machine)
    for job in first_started(job for job in jobs if job.state == "running"):
        count = _still_needed(job)
        if count is None:
            continue
        settles = job.since + _SETTLE_SECONDS
        if not job.grant.lent and now < settles:
            settled_at = settles if settled_at is None else min(settled_at, settles)
            continue
        loan = lendable.loan(job, count)
        if loan is not None:
            loans.append(loan)
    return loans, settled_at


class _Lendable:
    """The CPUs that nobody lends yet."""

    def __init__(self, machine: Machine) -> None:
        self._layout = Layout(machine)
        self._machine = machine.cpuset
        self._kept: set[int] = set()
        self._left = set(machine.cpuset)

    def loan(self, job: Job, count: int) -> _Loan | None:
        """Return what a job lends if it keeps so many of its CPUs; None if that cannot be."""
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
    """Return how many of its cores a job goes on using if it lends; None if it does not."""
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
