# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Allocation: a policy's decision about the CPUs that each job may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tf_malleable.model.cpuset import Cpuset


@dataclass(frozen=True)
class Grant:
    """The CPUs of one job.

    Attributes:
        cpus: CPUs that the job may use; their number is its thread limit.
        lent: The job's own CPUs that may be granted to other jobs, too. Those that are not in
            `cpus` it does not use until it needs them again. If a job has lent all its CPUs, its
            affinity stays unchanged: while it sleeps it needs no CPU, and after waking up it
            shares one with the borrower until the borrower has left. Those that are in `cpus` it
            uses at any time, as the kernel lets it preempt the borrower.
    """

    cpus: Cpuset = frozenset()
    lent: Cpuset = frozenset()

    @property
    def own(self) -> Cpuset:
        """All CPUs of the job, used or lent."""
        return self.cpus | self.lent if self.lent else self.cpus

    def __bool__(self) -> bool:
        return bool(self.cpus or self.lent)


NO_GRANT = Grant()


@dataclass(frozen=True)
class Allocation:
    """A policy's whole decision.

    Attributes:
        grants: Grants by job id. A job without a grant, or with an empty one, gets no CPUs: it
            waits, or is paused if it was running.
        review_at: Time of the next decision if nothing happens before; None for no such
            time.
    """

    grants: Mapping[str, Grant]
    review_at: float | None = None
