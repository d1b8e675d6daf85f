# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""EASY backfill: later jobs use the cores that the head of the queue cannot use yet.

The head has a reservation for the time at which enough running jobs are expected to have
ended. A job behind it starts if it fits now and is expected to end before that time, or
needs only cores that the head will not need then. (Lifka, "The ANL/IBM SP scheduling
system", JSSPP 1995; Mu'alem and Feitelson, "Utilization, predictability, workloads, and
user runtime estimates in scheduling the IBM SP2 with backfilling", TPDS 12(6), 2001.)
Nothing is killed at its estimate, unlike in the batch systems of these papers. Estimates
that are too short could therefore hold the head back again and again, so only jobs that arrive
within a bounded time after it may overtake it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tf_malleable.model import Job
from tf_malleable.policies.queues.remaining_work import remaining_seconds, usual_seconds

# A head is overtaken only by jobs that arrive within this time after it: a number of
# seconds, plus this multiple of its own run time.
OVERTAKING_SECONDS = 600.0
OVERTAKING_RUN_TIMES = 3.0


@dataclass(frozen=True)
class Reservation:
    """Expected start of the head of a queue.

    Attributes:
        seconds: Expected time until the start.
        spare: Cores that will be free then, beside those of the head.
    """

    seconds: float
    spare: int

    def admits(self, seconds: float | None, need: int) -> bool:
        """Return whether a job of this run time, if known, and size does not delay the head."""
        return need <= self.spare or (seconds is not None and seconds <= self.seconds)

    def after(self, seconds: float | None, need: int) -> Reservation:
        """Return the reservation after such a job has started."""
        if seconds is not None and seconds <= self.seconds:
            return self
        return replace(self, spare=self.spare - need)


def reserve(need: int, free: int, running: Iterable[tuple[float, int]]) -> Reservation:
    """Return the reservation of a job that needs more cores than are free.

    Args:
        need: Number of cores the head needs; not more than the machine has.
        free: Cores that are free now.
        running: For each running job, the seconds until its end, and its cores.
    """
    ends = sorted(running)
    for index, (seconds, cores) in enumerate(ends):
        free += cores
        # Count all jobs that end at the same time.
        last = index + 1 == len(ends) or ends[index + 1][0] > seconds
        if free >= need and last:
            return Reservation(seconds, free - need)
    return Reservation(0.0, 0)


class Backfill:
    """Expected run times of the jobs of one decision.

    Args:
        jobs: All jobs; a new command is expected to run for the median of their run times.
    """

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs

    @cached_property
    def _usual(self) -> float | None:
        # Computed lazily: a queue may be long, and its head is seldom blocked.
        return usual_seconds(self._jobs)

    def seconds(self, job: Job) -> float | None:
        """Return the run time of a job without cores; None if nothing is known."""
        if job.started is not None:
            return remaining_seconds(job)
        return self._usual if job.expected_seconds is None else job.expected_seconds

    def seconds_left(self, job: Job) -> float:
        """Return the time until a running or starting job ends; a guess if nothing is known."""
        seconds = self.seconds(job)
        return remaining_seconds(job) if seconds is None else seconds

    def may_overtake(self, job: Job, head: Job) -> bool:
        """Return whether a job arrived early enough to overtake the head at all."""
        own = self.seconds(head) or 0.0
        return job.submitted <= head.submitted + OVERTAKING_SECONDS + OVERTAKING_RUN_TIMES * own
