# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a policy is.

One method, and all it may know is in its arguments. So the live controller, a
simulator in virtual time and a cluster operator can call the same object, and a
decision can be repeated from a log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tf_malleable.model import Allocation, Job, Machine


class Policy(Protocol):
    """Shares a machine out among jobs."""

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        """Decide which CPUs each job gets from now on.

        Pure: no I/O, no clock, nothing remembered between calls.

        Args:
            jobs: Every job that waits, runs or is paused, in order of arrival.
            machine: The CPUs to share out, none of them taken by anything else.
            now: The time on the clock of the jobs' times, in seconds.

        Returns:
            Grants in which no CPU is used twice and each job has nothing or
            min … max cores. A job that is running keeps at least min, unless the
            policy preempts or the machine has become too small.
        """
        ...
