# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Queue orders: which waiting job is next, and which running jobs are paused for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from tf_malleable.model import Job

Rank = tuple[float, ...]
Preempt = Literal["no", "longest", "smallest"]

_SHORTEST_REVIEW_SECONDS = 1.0
# Value of a point of priority in a queue that is not ordered by priority. It is bounded, so
# that priority starves no job in such a queue.
PRIORITY_SECONDS = 60.0


class Order(Protocol):
    """A queue order. Pure, like a policy.

    Attributes:
        preempts: True if it may have victims.
    """

    preempts: bool

    def rank(self, job: Job, now: float) -> Rank:
        """Return the sort key of a job without cores; lowest goes first.

        Also called for a running job that is about to lose its cores.
        """
        ...

    def victims(self, running: Sequence[Job], now: float) -> list[Job]:
        """Return the running jobs that may be paused for another; the last is paused first."""
        ...

    def yields(self, victim: Job, head: Job, now: float) -> bool:
        """Return whether a victim is paused for the job at the head of the queue.

        If it is not, it must not be paused for any job later in the queue either.
        """
        ...

    def review_at(self, running: Iterable[Job], queue: Iterable[Job], now: float) -> float | None:
        """Return when the order will change by time alone; None if it will not."""
        ...


def arrival(job: Job) -> float:
    """Return a job's effective arrival time: each point of priority is a minute earlier."""
    return job.submitted - PRIORITY_SECONDS * job.priority


class Fcfs:
    """First come, first served; no job is paused for another.

    Each point of priority counts like having arrived a minute earlier.
    """

    preempts = False

    def rank(self, job: Job, now: float) -> Rank:
        """Rank paused jobs by start, then waiting ones by arrival and priority."""
        return _first_come(job, arrival(job))

    def victims(self, running: Sequence[Job], now: float) -> list[Job]:
        """Return no jobs."""
        return []

    def yields(self, victim: Job, head: Job, now: float) -> bool:
        """Return False."""
        return False

    def review_at(self, running: Iterable[Job], queue: Iterable[Job], now: float) -> float | None:
        """Return None."""
        return None


class Priority(Fcfs):
    """Highest priority first, then first come, first served.

    Args:
        ageing: Seconds without cores, since its arrival, that earn a job one point
            of priority; None turns ageing off. A job keeps the points it has earned, so
            jobs that pause each other take turns of at least that time.
        preempt: Which lower-priority job is paused for a higher-priority one: none,
            the one that has run longest, or the one that prefers the fewest cores.
    """

    def __init__(self, ageing: float | None = None, preempt: Preempt = "no") -> None:
        self._ageing = ageing
        self._preempt = preempt
        self.preempts = preempt != "no"

    def rank(self, job: Job, now: float) -> Rank:
        """Rank by points, then paused jobs by start, then waiting ones by arrival."""
        return (-self._points(job, now), *_first_come(job, job.submitted))

    def victims(self, running: Sequence[Job], now: float) -> list[Job]:
        """Return running jobs, those that ran longest or prefer the fewest cores last."""
        if self._preempt == "no":
            return []
        if self._preempt == "longest":
            return sorted(running, key=lambda job: job.run_seconds)
        return sorted(running, key=lambda job: -job.shape.preferred)

    def yields(self, victim: Job, head: Job, now: float) -> bool:
        """Yield only to a job with more points."""
        return self._points(victim, now) < self._points(head, now)

    def review_at(self, running: Iterable[Job], queue: Iterable[Job], now: float) -> float | None:
        """Return when a queued job earns its next point and may pause another."""
        if self._ageing is None or self._preempt == "no":
            return None
        ageing = self._ageing
        soonest = min((ageing - _waited(job, now) % ageing for job in queue), default=None)
        return None if soonest is None else now + max(soonest, _SHORTEST_REVIEW_SECONDS)

    def _points(self, job: Job, now: float) -> int:
        if self._ageing is None:
            return job.priority
        return job.priority + int(_waited(job, now) / self._ageing)


class RoundRobin(Fcfs):
    """Jobs take turns: a job that has run for a quantum makes room for those that wait.

    Each point of priority counts like having waited for a quantum longer.

    Args:
        quantum: Seconds a job may run before it is another job's turn.
    """

    preempts = True

    def __init__(self, quantum: float = 10.0) -> None:
        self._quantum = quantum

    def rank(self, job: Job, now: float) -> Rank:
        """Rank by the time jobs joined the queue; at equal times, paused ones first."""
        joined = now if job.state == "running" else job.since
        return (joined - self._quantum * job.priority, *_first_come(job, job.submitted))

    def victims(self, running: Sequence[Job], now: float) -> list[Job]:
        """Return jobs that have run for a quantum, the longest turn last."""
        over = [job for job in running if now >= job.since + self._quantum]
        return sorted(over, key=lambda job: -job.since)

    def yields(self, victim: Job, head: Job, now: float) -> bool:
        """Return True: a victim yields to any job."""
        return True

    def review_at(self, running: Iterable[Job], queue: Iterable[Job], now: float) -> float | None:
        """Return when the next quantum ends, if any job waits."""
        if not any(True for _ in queue):
            return None
        began = (job.since if job.state == "running" else now for job in running)
        ends = (since + self._quantum for since in began)
        return min((end for end in ends if end > now), default=None)


def _first_come(job: Job, arrived: float) -> Rank:
    """Rank paused jobs by start, then waiting ones by arrival."""
    return (1.0, arrived) if job.started is None else (0.0, job.started)


def _waited(job: Job, now: float) -> float:
    return max(0.0, now - job.submitted - job.run_seconds)
