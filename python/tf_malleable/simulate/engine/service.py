# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A simulated service: a job that serves requests for a time, and reports their latencies."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from tf_malleable.api.schema.services.request_latency import RequestLatency, RequestReport
from tf_malleable.model import Grant, Job
from tf_malleable.model.services.latency import bucket_of
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Lessons
from tf_malleable.scheduling.records.request_latencies import RequestLatencies
from tf_malleable.simulate.engine.foresight import NONE, Clairvoyance
from tf_malleable.simulate.engine.job import ON_A_LENT_CPU, SimulatedJob
from tf_malleable.simulate.engine.progress_reports import Reports
from tf_malleable.simulate.engine.request_queue import RequestQueue
from tf_malleable.simulate.engine.task import Task

# All requests of a service are reported as those of one process.
_PID: Final = 1


class SimulatedService(SimulatedJob):
    """A service of a simulated host. Its work is the time for which it serves, with any cores.

    Attributes:
        latencies: Latencies of its requests, as the controller knows them.
    """

    def __init__(
        self,
        task: Task,
        record: Record,
        lessons: Lessons,
        factor: Callable[[int], float],
        reports: Reports,
        foresight: Clairvoyance = NONE,
    ) -> None:
        """Create a service that arrives; see SimulatedJob."""
        assert task.requests is not None
        self.latencies = RequestLatencies()
        self._queue = RequestQueue(task.requests, random.Random(f"{reports.first} requests"))
        self._is_late = False
        super().__init__(task, record, lessons, factor, reports, foresight)

    def take(self, grant: Grant, now: float, delay: float) -> Record:
        """Accept a new grant, in force after `delay` seconds; return the record before it."""
        if len(grant.cpus) != len(self.record.grant.cpus):
            self.latencies.note_change(len(grant.cpus), now)
        return super().take(grant, now, delay)

    def _go_on(self, until: float) -> None:
        seconds, is_serving = until - self._at, self._phase == "working"
        super()._go_on(until)
        if seconds > 0 and is_serving and self.record.started is not None:
            cores = ON_A_LENT_CPU if self._cores == 0 else max(0, self._cores) * self._share
            until = self._queue.at + seconds
            self.cpu_seconds += self._queue.advance(until, cores, self._speed_of_one)

    def _speed_of_one(self, cores: float) -> float:
        """Return the speed of a request with so many cores for itself."""
        return cores if cores < 1 else self._speed_with(math.floor(cores))

    def _pace(self, cores: int) -> tuple[float, float]:
        if self._phase == "working":  # The CPU time is that of the requests.
            return float(self.record.started is not None), 0.0
        return super()._pace(cores)

    def _expect_samples(self, cores: int) -> None:
        self.samples_left = 1

    def sample(self, now: float) -> None:
        """Sample the CPU use, and report the requests since the last sample."""
        self.samples_left = 2  # It never ends, as the use is never constant.
        super().sample(now)
        counts = Counter(map(bucket_of, self._queue.ended))
        self._queue.ended.clear()
        buckets = sorted(counts)
        report = RequestReport(
            buckets=buckets,
            counts=[counts[bucket] for bucket in buckets],
            in_flight=self._queue.in_flight,
            oldest_seconds=self._queue.oldest_seconds,
        )
        self._is_late |= self.latencies.add(_PID, report, self.record.slo, now)

    @property
    def has_news(self) -> bool:
        """Whether a policy might decide differently with the current knowledge."""
        return self._is_late or super().has_news

    def note_decision(self) -> None:
        """Note the knowledge at a decision."""
        self._is_late = False
        super().note_decision()

    @property
    def latency(self) -> RequestLatency | None:
        """Latencies of all its requests."""
        return self.latencies.at_end()

    def _as_job(self, now: float, used: float | None) -> Job:
        job = super()._as_job(now, used)
        slo = self.record.slo
        return job if slo is None else replace(job, load=self.latencies.load(slo, now))
