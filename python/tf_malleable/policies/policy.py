# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The policy interface.

A policy has one method, and its arguments are all it may know. The controller, a
simulator in virtual time and a cluster operator can therefore call the same object, and a
decision can be replayed from a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tf_malleable.model import Allocation, Job, Machine


class Policy(Protocol):
    """Shares a machine out among jobs."""

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide which CPUs each job gets from now on.

        Pure: no I/O, no clock, no state kept between calls.

        Args:
            jobs: Every waiting, running or paused job, in order of arrival.
            machine: The CPUs to share out; nothing else uses them. If several users have jobs,
                these are one user's jobs and share.
            now: The time in seconds, on the same clock as the jobs' times.

        Returns:
            Grants in which no CPU is used twice and each job has either nothing or
            min … max cores. A running job keeps at least min, unless the policy preempts
            or the machine has become too small.
        """
        ...
