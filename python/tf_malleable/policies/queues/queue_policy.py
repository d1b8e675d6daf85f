# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Policies composed of an order (which jobs run) and a way to share (with how many cores).

Running jobs keep their place, the queue is served in order, and the remaining cores are shared
out. Order and sharing are independent of each other, which gives the classic policies
and most of the others.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from tf_malleable.model import Job
from tf_malleable.policies.queues.backfill import Backfill, reserve
from tf_malleable.policies.queues.orders import Order, Rank
from tf_malleable.policies.shares.core_counts import CountingPolicy, Decision
from tf_malleable.policies.shares.placement import first_started
from tf_malleable.policies.shares.sharing_rules import Sharing

# Jobs behind a blocked head that are considered for backfill; bounds a decision's time.
_CONSIDERED = 100


class QueueingPolicy(CountingPolicy):
    """Serves the queue in a given order and shares the cores in a given way.

    Args:
        order: Order of the queue.
        sharing: Number of cores of each job.
        backfills: True if later jobs may start before a head that does not fit; see `backfill`.
    """

    def __init__(self, order: Order, sharing: Sharing, *, backfills: bool = False) -> None:
        self._order = order
        self._sharing = sharing
        self._backfills = backfills
        self.preempts = order.preempts

    def keep(self, running: Sequence[Job], cores: int) -> dict[str, int]:
        """Return the cores that running jobs cannot lose to others; see CountingPolicy."""
        return self._sharing.keep(running, cores)

    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of `cores` cores each job gets."""
        running = first_started(job for job in jobs if job.state == "running")
        counts = self._sharing.keep(running, cores)
        backfill = Backfill(jobs) if self._backfills else None
        service = _Service(self._order, self._sharing, counts, cores, now, backfill)
        service.serve(jobs)
        admitted = [job for job in running if job.id in service.counts]
        admitted += [job for job in service.started if job.state != "running"]
        final = self._sharing.finish(admitted, service.counts, service.free, bool(service.waiting))
        return Decision(final, self._order.review_at(admitted, service.waiting, now))


class _Service:
    """Serves the queue once.

    Attributes:
        counts: Number of cores by job id.
        free: Number of free cores.
        started: Queued jobs that got cores, in that order.
        waiting: Queued jobs that got none, although the machine is large enough for each.
    """

    def __init__(
        self,
        order: Order,
        sharing: Sharing,
        counts: dict[str, int],
        cores: int,
        now: float,
        backfill: Backfill | None,
    ) -> None:
        self._order = order
        self._sharing = sharing
        self._cores = cores
        self._now = now
        self._backfill = backfill
        self._running: list[Job] = []
        self._queue: list[tuple[Rank, int, Job]] = []
        self._joined = 0
        self._victims: list[Job] = []
        self.counts = counts
        self.free = cores - sum(counts.values())
        self.started: list[Job] = []
        self.waiting: list[Job] = []

    def serve(self, jobs: Sequence[Job]) -> None:
        self._running = [job for job in jobs if job.id in self.counts]
        self._victims = self._order.victims(self._running, self._now)
        others = [
            job for job in jobs if job.id not in self.counts and self._needs(job) <= self._cores
        ]
        if not (self.free or self._victims):
            # The usual case: do not sort a long queue in vain.
            self.waiting = others
            return
        self._queue = [self._entry(job) for job in others]
        heapq.heapify(self._queue)
        while self._queue and (self.free or self._victims):
            _, _, job = heapq.heappop(self._queue)
            need = self._needs(job)
            if need > self.free:
                self._make_room(job, need)
            if need <= self.free:
                self._start(job)
                continue
            self.waiting.append(job)
            if self._sharing.blocks:
                if self._backfill is not None:
                    self._overtake(self._backfill, job)
                break
        self.waiting += [job for _, _, job in self._queue]

    def _start(self, job: Job) -> None:
        count = self._sharing.takes(job, self.free, self._cores)
        self.counts[job.id] = count
        self.free -= count
        self.started.append(job)

    def _overtake(self, backfill: Backfill, head: Job) -> None:
        """Start jobs behind the head that fit now and do not delay it."""
        busy = [job for job in [*self._running, *self.started] if job.id in self.counts]
        ends = [(backfill.seconds_left(job), self.counts[job.id]) for job in busy]
        reservation = reserve(self._needs(head), self.free, ends)
        for _ in range(min(_CONSIDERED, len(self._queue))):
            if not self.free:
                break
            _, _, job = heapq.heappop(self._queue)
            need, seconds = self._needs(job), backfill.seconds(job)
            fits = need <= self.free and backfill.may_overtake(job, head)
            if fits and reservation.admits(seconds, need):
                reservation = reservation.after(seconds, need)
                self._start(job)
            else:
                self.waiting.append(job)

    def _needs(self, job: Job) -> int:
        return self._sharing.needs(job, self._cores)

    def _make_room(self, head: Job, need: int) -> None:
        """Pause as many victims as needed; if all of them are too few, none."""
        paused: list[Job] = []
        room = self.free
        while self._victims and room < need:
            victim = self._victims.pop()
            if self._order.yields(victim, head, self._now):
                paused.append(victim)
                room += self.counts[victim.id]
        if room < need:
            # They may suffice for a smaller job behind this one.
            self._victims += reversed(paused)
            return
        self.free = room
        for victim in paused:
            del self.counts[victim.id]
            heapq.heappush(self._queue, self._entry(victim))

    def _entry(self, job: Job) -> tuple[Rank, int, Job]:
        """Return the queue's sort key; the counter keeps jobs from being compared."""
        self._joined += 1
        return (self._order.rank(job, self._now), self._joined, job)
