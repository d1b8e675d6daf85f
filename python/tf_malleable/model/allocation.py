# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a policy decides: which CPUs each job may use."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tf_malleable.model.cpuset import Cpuset


@dataclass(frozen=True)
class Grant:
    """The CPUs of one job.

    Attributes:
        cpus: Those it may use; their number is its thread limit.
        lent: Those that are its own but that it does not use, so that other jobs
            may be granted them until it wants them back. A job that has lent all
            it has stays where it is: asleep it needs no CPU, and when it wakes up
            it shares one with the borrower until that is told to leave.
    """

    cpus: Cpuset = frozenset()
    lent: Cpuset = frozenset()

    @property
    def own(self) -> Cpuset:
        """All CPUs that are the job's, used or lent."""
        return self.cpus | self.lent

    def __bool__(self) -> bool:
        return bool(self.own)


NO_GRANT = Grant()


@dataclass(frozen=True)
class Allocation:
    """A policy's whole decision.

    Attributes:
        grants: By job id. A job that is not named, or whose grant is empty, gets
            nothing: it waits, or is paused if it ran.
        review_at: Decide again at this time even if nothing happens before.
    """

    grants: Mapping[str, Grant]
    review_at: float | None = None
