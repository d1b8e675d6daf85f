# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""In which order jobs that have no cores get some, and who must make room for them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from tf_malleable.model import Job

Rank = tuple[float, ...]
Preempt = Literal["no", "longest", "smallest"]

_SHORTEST_REVIEW_SECONDS = 1.0


class Order(Protocol):
    """An order of a queue. Pure, like a policy."""

    def rank(self, job: Job, now: float) -> Rank:
        """Return what jobs without cores are sorted by, lowest first.

        A running job is asked about when it is to lose its cores now.
        """
        ...

    def victims(self, running: Sequence[Job], now: float) -> list[Job]:
        """Return the running jobs that may be paused for another, the last one first."""
        ...

    def yields(self, victim: Job, head: Job, now: float) -> bool:
        """Return whether one of the victims is paused for this job.

        If it is not, then for none that comes later in the queue either.
        """
        ...

    def review_at(self, running: Iterable[Job], queue: Iterable[Job], now: float) -> float | None:
        """Return when time alone will change the order, given who runs and waits now."""
        ...


class Fcfs:
    """First come, first served; nobody is paused for another."""

    def rank(self, job: Job, now: float) -> Rank:
        """Paused jobs by start, then waiting ones by arrival."""
        if job.started is None:
            return (1.0, job.submitted)
        return (0.0, job.started)

    def victims(self, running: Sequence[Job], now: float) -> list[Job]:
        """Nobody."""
        return []

    def yields(self, victim: Job, head: Job, now: float) -> bool:
        """Never."""
        return False

    def review_at(self, running: Iterable[Job], queue: Iterable[Job], now: float) -> float | None:
        """Never."""
        return None


class Priority(Fcfs):
    """Highest priority first, then first come, first served.

    Args:
        ageing: Seconds without cores, since its arrival, that count as one point
            of priority; None for none. A job keeps the points it has earned, so two
            jobs that pause each other do so in turns of at least that time.
        preempt: Which job of lower priority is paused for a more important one:
            none, the one that has run longest, or the one that asks for least.
    """

    def __init__(self, ageing: float | None = None, preempt: Preempt = "no") -> None:
        self._ageing = ageing
        self._preempt = preempt

    def rank(self, job: Job, now: float) -> Rank:
        """By points, then paused ones by start, then waiting ones by arrival."""
        return (-self._points(job, now), *super().rank(job, now))

    def victims(self, running: Sequence[Job], now: float) -> list[Job]:
        """Those that ran longest, or ask for least."""
        if self._preempt == "no":
            return []
        if self._preempt == "longest":
            return sorted(running, key=lambda job: job.run_seconds)
        return sorted(running, key=lambda job: -job.shape.preferred)

    def yields(self, victim: Job, head: Job, now: float) -> bool:
        """Only to a job that has more points."""
        return self._points(victim, now) < self._points(head, now)

    def review_at(self, running: Iterable[Job], queue: Iterable[Job], now: float) -> float | None:
        """When a job in the queue earns its next point and may pause another."""
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
    """In turns: who has run for a quantum makes room for those that wait.

    Args:
        quantum: Seconds a job may run before another one's turn.
    """

    def __init__(self, quantum: float = 10.0) -> None:
        self._quantum = quantum

    def rank(self, job: Job, now: float) -> Rank:
        """By the time they joined the queue; at one time paused ones first."""
        joined = now if job.state == "running" else job.since
        return (joined, *super().rank(job, now))

    def victims(self, running: Sequence[Job], now: float) -> list[Job]:
        """Those that have run for a quantum, the longest turn goes first."""
        over = [job for job in running if now >= job.since + self._quantum]
        return sorted(over, key=lambda job: -job.since)

    def yields(self, victim: Job, head: Job, now: float) -> bool:
        """To anyone."""
        return True

    def review_at(self, running: Iterable[Job], queue: Iterable[Job], now: float) -> float | None:
        """When the next quantum is over, if somebody waits for that."""
        if not any(True for _ in queue):
            return None
        began = (job.since if job.state == "running" else now for job in running)
        ends = (since + self._quantum for since in began)
        return min((end for end in ends if end > now), default=None)


def _waited(job: Job, now: float) -> float:
    return max(0.0, now - job.submitted - job.run_seconds)
