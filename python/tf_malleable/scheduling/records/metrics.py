# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Metrics of jobs that have ended.

The terms are those of parallel job scheduling: D. G. Feitelson and L. Rudolph,
"Metrics and Benchmarking for Parallel Job Scheduling", JSSPP 1998, and D. G.
Feitelson, "Workload Modeling for Computer Systems Performance Evaluation", 2015.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Final

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.history import JobRecord, Outcome, Summary
from tf_malleable.api.schema.messages import Speed
from tf_malleable.api.schema.services.request_latency import RequestLatency
from tf_malleable.api.schema.tier_reads import TierReading
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.phases import NOT_FOLLOWED, Course
from tf_malleable.scheduling.records.speeds import Speedometer
from tf_malleable.scheduling.records.time_accounts import up_to

BOUND_SECONDS: Final = 10.0
"""Least time in service that a job's slowdown is measured by (Feitelson and Rudolph)."""


@dataclass(frozen=True)
class Measurements:
    """Measurements of a job.

    Attributes:
        cpu_seconds: CPU time used; None if unknown.
        speed: Progress and speeds; None if unknown.
        peak_mem: Maximum memory that the job was seen to use, in bytes; None if unknown.
        course: Phases of its time with cores.
        elastic: Generations; None if the job was not an elastic training.
        reading: Data-tier reads of the job; None if it read through no tier.
        latency: Requests that the job has served; None for none.
        out_of_memory: True if the kernel has killed a process of the job for lack of memory.
        killed: Number of processes that were killed because they outlived the main process.
        killed_commands: Pid and command of some of these.
    """

    cpu_seconds: float | None = None
    speed: Speedometer | None = None
    peak_mem: int | None = None
    course: Course = NOT_FOLLOWED
    elastic: Elastic | None = None
    reading: TierReading | None = None
    latency: RequestLatency | None = None
    out_of_memory: bool = False
    killed: int = 0
    killed_commands: tuple[str, ...] = ()


NOT_MEASURED: Final = Measurements()


def rounded(joules: float | None) -> float | None:
    """Return an energy rounded for publication; finer values reveal what other users compute."""
    return None if joules is None else round(joules, 1)


def ended(
    record: Record,
    at: float,
    outcome: Outcome,
    exit_code: int | None,
    measured: Measurements = NOT_MEASURED,
    *,
    user: str,
    account: str | None = None,
) -> JobRecord:
    """Return the metrics of a job that ended at `at`, a Unix time in seconds.

    Every second between arrival and end is spent waiting (before the first core),
    in service (with cores) or paused (without cores, after the first). Their sum is the
    total time, or turnaround; Feitelson also calls it response time. It equals `ended`
    - `submitted` unless the clock was set back; while the clock is behind, no time is
    counted.

    Args:
        record: Record of the job; its state lasted until `at`.
        at: End of the job.
        outcome: Outcome of the job.
        exit_code: Exit code as in a shell; None if unknown.
        measured: Measurements of the job.
        user: Name of the job's user.
        account: Name of the user that the job counts for; None for the job's user.
    """
    last, speed, course = up_to(record, at), measured.speed, measured.course
    return JobRecord(
        id=record.id,
        name=record.name,
        command=list(record.command),
        user=user,
        submitted=record.submitted,
        started=record.started,
        ended=last.since,
        outcome=outcome,
        exit_code=exit_code,
        waiting_seconds=last.waiting_seconds,
        service_seconds=last.run_seconds,
        paused_seconds=last.paused_seconds,
        total_seconds=last.waiting_seconds + last.run_seconds + last.paused_seconds,
        core_seconds=last.core_seconds,
        cpu_seconds=measured.cpu_seconds,
        resizes=record.resizes,
        steps=None if speed is None else speed.steps,
        mem=record.mem,
        peak_mem=measured.peak_mem,
        area=record.area,
        energy_joules=rounded(record.energy_joules),
        energy_source=record.energy_source,
        gpus=list(record.gpus or ()),
        output=record.output,
        min=record.shape.min,
        preferred=record.shape.preferred,
        max=record.shape.max,
        priority=record.priority,
        weight=record.weight,
        expected=record.expected,
        speeds=None if speed is None else [Speed(*rate) for rate in speed.rates],
        steps_total=None if speed is None else speed.total,
        first_step_seconds=course.first_step_seconds,
        first_idle_seconds=course.first_idle_seconds,
        last_step_seconds=course.last_step_seconds,
        idle_seconds=course.idle_seconds,
        idle_phases=course.idle_phases,
        elastic=measured.elastic,
        reading=measured.reading,
        killed=measured.killed,
        killed_commands=list(measured.killed_commands),
        grants=record.serial,
        account=account,
        cause=_cause(record, outcome, measured),
        array=record.array,
        group=record.group,
        slo=None if record.slo is None else record.slo.text,
        latency=measured.latency,
    )


def _cause(record: Record, outcome: Outcome, measured: Measurements) -> str | None:
    if outcome in ("failed", "unknown") and measured.out_of_memory:
        return "out-of-memory"
    return "reboot" if outcome == "interrupted" else record.cause


def summary(records: Iterable[JobRecord], cpus: int) -> Summary:
    """Return the metrics of all these jobs together; see Totals.

    Args:
        records: Records in any order.
        cpus: Number of CPUs shared out; 0 if unknown.
    """
    totals = Totals()
    for record in records:
        totals.add(record)
    return totals.summary(cpus)


class Totals:
    """Sums of the metrics of jobs, added one by one so that no record has to be kept."""

    def __init__(self) -> None:
        self._jobs = self._failures = self._served = 0
        self._first, self._last = inf, -inf
        self._turnaround = self._waiting = self._slowdown = 0.0
        self._cpu_seconds: float | None = None

    def add(self, record: JobRecord) -> None:
        """Add a job."""
        self._jobs += 1
        self._failures += record.outcome == "failed"
        self._first = min(self._first, record.submitted)
        self._last = max(self._last, record.ended)
        self._turnaround += record.total_seconds
        self._waiting += record.waiting_seconds
        if record.service_seconds > 0:
            self._served += 1
            service = max(record.service_seconds, BOUND_SECONDS)
            self._slowdown += max(1.0, record.total_seconds / service)
        if record.cpu_seconds is not None:
            self._cpu_seconds = (self._cpu_seconds or 0.0) + record.cpu_seconds

    def summary(self, cpus: int) -> Summary:
        """Return the metrics of all added jobs together.

        - makespan: from the first arrival to the last end.
        - mean turnaround, mean waiting: arithmetic means over all jobs.
        - mean slowdown: the mean of the bounded slowdown, which is turnaround divided by time
          in service, or by 10 s if that is more, and at least 1: otherwise a job that fails at
          once would count more than all others. For a job that is resized, service is the time
          it had any cores, however many; a job that never had any has no slowdown.
        - throughput: jobs that ended, with any outcome, divided by the makespan.
        - utilization: CPU time used divided by CPUs times makespan. Jobs whose CPU time is
          unknown count as 0, which makes it a lower bound.

        Metrics that are undefined (no jobs, no time, no CPUs) are None.

        Args:
            cpus: Number of CPUs shared out; 0 if unknown.
        """
        makespan = max(0.0, self._last - self._first) if self._jobs else None
        used, available = self._cpu_seconds, cpus * (makespan or 0.0)
        return Summary(
            jobs=self._jobs,
            failures=self._failures,
            makespan=makespan,
            mean_turnaround=_mean(self._turnaround, self._jobs),
            mean_waiting=_mean(self._waiting, self._jobs),
            mean_slowdown=_mean(self._slowdown, self._served),
            throughput=self._jobs / makespan if makespan else None,
            utilization=used / available if available and used is not None else None,
        )


def _mean(total: float, number: int) -> float | None:
    return total / number if number else None
