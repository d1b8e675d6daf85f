# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Validation of a policy's allocation before it is applied; policies may be third-party."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_malleable.model import Allocation, Cpuset, Grant, Job, Machine, format_cpuset


class InvalidAllocationError(Exception):
    """A policy's allocation is inconsistent, or violates a job's shape or the machine."""


def check(allocation: Allocation, jobs: Sequence[Job], machine: Machine) -> None:
    """Raise InvalidAllocationError, with the reason, if an allocation is invalid.

    A valid allocation names only these jobs and CPUs of this machine, and gives each job either
    nothing or min … max CPUs, lent ones included. It uses no CPU twice, unless one of the two jobs
    lends it and the kernel lets that one preempt the other. The CPUs are Python integers, not
    NumPy's, and the next review, if any, is at a finite time.
    """
    review_at = allocation.review_at
    if review_at is not None and not _is_finite(review_at):
        raise InvalidAllocationError(
            f"review_at must be None or a finite number of seconds, not {review_at!r}"
        )
    known = {job.id: job for job in jobs}
    used: dict[int, str] = {}
    owned: dict[int, str] = {}
    shared: dict[int, str] = {}
    for name, grant in allocation.grants.items():
        job = known.get(name)
        if job is None:
            raise InvalidAllocationError(f"there is no job {name!r}")
        _check_grant(job, grant, machine)
        _claim(used, name, grant.cpus - grant.lent, "used by")
        # A job may lend on what it has from one that goes on using it.
        _claim(owned, name, grant.lent - grant.cpus, "lent by")
        _claim(shared, name, grant.lent & grant.cpus, "shared by")


def _is_finite(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _check_grant(job: Job, grant: Grant, machine: Machine) -> None:
    own = grant.own
    if not own:
        return
    for cpu in own:
        # Other integer types compare equal to Python's, but cannot be encoded as JSON.
        if type(cpu) is not int:
            kind = type(cpu).__name__
            raise InvalidAllocationError(f"job {job.id} gets CPU {cpu} of type {kind}, not int")
    if not own <= machine.cpuset:
        foreign = format_cpuset(own - machine.cpuset)
        raise InvalidAllocationError(f"job {job.id} gets CPUs {foreign}, which do not exist")
    if grant.cpus & grant.lent and not machine.preempts:
        both = format_cpuset(grant.cpus & grant.lent)
        raise InvalidAllocationError(f"job {job.id} both uses and lends CPUs {both}")
    if not job.shape.min <= len(own) <= job.shape.max:
        raise InvalidAllocationError(
            f"job {job.id} gets {len(own)} cores, outside {job.shape.min} … {job.shape.max}"
        )


def _claim(claims: dict[int, str], name: str, cpus: Cpuset, what: str) -> None:
    for cpu in cpus:
        other = claims.setdefault(cpu, name)
        if other != name:
            raise InvalidAllocationError(f"CPU {cpu} is {what} both job {other} and job {name}")
