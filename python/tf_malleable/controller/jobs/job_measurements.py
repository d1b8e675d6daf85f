# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measurements of a live job: progress, speeds, usage, and knowledge from earlier jobs."""

from __future__ import annotations

from dataclasses import dataclass, field

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.model import Rate
from tf_malleable.scheduling.decision import policy_input
from tf_malleable.scheduling.decision.wake_demand import Queueing
from tf_malleable.scheduling.records.lessons import Lessons
from tf_malleable.scheduling.records.phases import Phases
from tf_malleable.scheduling.records.request_latencies import RequestLatencies
from tf_malleable.scheduling.records.speeds import Speedometer
from tf_malleable.scheduling.records.usage import FULL, Usage


@dataclass
class JobMeasurements:
    """Measurements of a live job.

    Attributes:
        lessons: Knowledge from earlier similar jobs.
        speed: Progress and measured speeds.
        usage: CPUs that the job keeps busy.
        phases: Phases of the job's use of its cores.
        latencies: Latencies of the requests that the job serves.
        queueing: CPUs that the job waits for while it lends all its own.
        reporter: Pid of the process whose steps count; None for none.
        elastic: State of the elastic training; None for other jobs.
        used_mem: Memory in use, in bytes; None if unknown.
        peak_mem: Highest observed memory use, in bytes; None if unknown.
        waited: Seconds since the last report of progress in which the job waited for its input.
        last_level: Level at the last decision.
        known: Knowledge of the speed at the last decision.
    """

    lessons: Lessons
    speed: Speedometer = field(default_factory=Speedometer)
    usage: Usage = field(default_factory=Usage)
    phases: Phases = field(default_factory=Phases)
    latencies: RequestLatencies = field(default_factory=RequestLatencies)
    queueing: Queueing = field(default_factory=Queueing)
    reporter: int | None = None
    elastic: Elastic | None = None
    used_mem: int | None = None
    peak_mem: int | None = None
    waited: float = 0.0
    last_level: int = FULL
    known: policy_input.Known = field(default_factory=policy_input.Known)

    def learn(self, lessons: Lessons) -> None:
        """Replace the knowledge from earlier jobs."""
        self.lessons = lessons

    def note_memory(self, used: int) -> None:
        """Record the memory in use, in bytes."""
        self.used_mem, self.peak_mem = used, max(used, self.peak_mem or 0)

    def note_cores(self, cores: int, now: float) -> None:
        """Record the number of cores that the job computes with from now on."""
        self.speed = self.speed.change(cores, now)

    def note_decision(self, level: int) -> None:
        """Record the knowledge that a decision is based on."""
        if self.speed is not self.known.speed:
            self.known = policy_input.Known(self.speed, self.rates)
        self.last_level = level

    def note_steps(
        self, steps_done: float, steps_total: float | None, now: float, run_seconds: float
    ) -> None:
        """Record the progress, after a run time in seconds."""
        self.speed = self.speed.report(steps_done, steps_total, now, self._end_wait())
        self.phases.report(steps_done, run_seconds)

    def note_regions(self, regions: float, now: float) -> None:
        """Record the parallel regions of a job that reports no steps."""
        self.speed = self.speed.report_regions(regions, now, self._end_wait())

    def _end_wait(self) -> float:
        waited, self.waited = self.waited, 0.0
        return waited

    def note_reporter(self, pid: int) -> None:
        """Set the process whose steps count."""
        self.reporter = pid

    def note_elastic(self, pid: int, elastic: Elastic) -> None:
        """Record the state of the elastic training, if `pid` is the process whose steps count."""
        if self.reporter in (None, pid):
            self.elastic = elastic

    def note_usage(
        self, cpu_seconds: float, runnable: float, now: float, run_seconds: float
    ) -> None:
        """Record the CPU time and run time so far, and the number of recently runnable threads."""
        self.waited += self.usage.add(cpu_seconds, runnable, now)
        self.phases.sample(cpu_seconds, run_seconds)

    def has_news(self, level: int) -> bool:
        """Return whether current knowledge may lead to a different decision than the last one."""
        return level != self.last_level or self.known.is_outdated_by(self.speed, self.lessons)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Recently measured speeds, completed with those of earlier jobs."""
        return policy_input.rates_of(self.speed, self.lessons)
