# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Base of the built-in policies: they decide core counts, and placement chooses the CPUs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tf_malleable.model import Allocation, Grant, Job, Machine
from tf_malleable.policies.shares.placement import place


@dataclass(frozen=True)
class Decision:
    """Number of cores of each job.

    Attributes:
        cores: Number of cores by job id; a missing job gets none.
        review_at: Time of the next review, as in Allocation.
    """

    cores: Mapping[str, int]
    review_at: float | None = None


class CountingPolicy(ABC):
    """A policy that decides core counts only; placement chooses the CPUs.

    Attributes:
        preempts: True if it may pause a running job for another one.
    """

    preempts = False

    @abstractmethod
    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of `cores` cores each job gets. Pure, like allocate()."""

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide which CPUs each job gets from now on; see Policy."""
        return placed(self.decide(jobs, len(machine.cpus), now), jobs, machine)

    def keep(self, running: Sequence[Job], cores: int) -> dict[str, int]:
        """Return the cores that running jobs cannot lose to others, by job id.

        Args:
            running: Running jobs in order of first start; jobs that do not fit are left out.
            cores: Number of cores.
        """
        return least(running, cores)


def placed(decision: Decision, jobs: Sequence[Job], machine: Machine) -> Allocation:
    """Return the CPUs of each job that gets cores."""
    found = place(decision.cores, jobs, machine)
    grants: dict[str, Grant] = {}
    for job in jobs:
        cpus = found.get(job.id)
        if cpus:
            unchanged = job.grant.cpus == cpus and not job.grant.lent
            grants[job.id] = job.grant if unchanged else Grant(cpus)
    return Allocation(grants, decision.review_at)


def least(running: Sequence[Job], cores: int) -> dict[str, int]:
    """Return min of each job that fits, in this order, by job id."""
    counts: dict[str, int] = {}
    for job in running:
        if job.shape.min <= cores:
            counts[job.id] = job.shape.min
            cores -= job.shape.min
    return counts


def present(job: Job) -> int:
    """Return the current number of cores of a running job, clamped to its min … max."""
    shape = job.shape
    return max(shape.min, min(len(job.grant.own), shape.max))
