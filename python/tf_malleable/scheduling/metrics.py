# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is measured of jobs that have ended.

The usual terms of parallel job scheduling: D. G. Feitelson and L. Rudolph,
"Metrics and Benchmarking for Parallel Job Scheduling", JSSPP 1998, and D. G.
Feitelson, "Workload Modeling for Computer Systems Performance Evaluation", 2015.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from tf_malleable.api.history import JobRecord, Outcome, Summary
from tf_malleable.scheduling.accounting import up_to
from tf_malleable.scheduling.record import Record


def ended(
    record: Record,
    at: float,
    outcome: Outcome,
    exit_code: int | None,
    cpu_seconds: float | None,
    steps: float | None,
    *,
    user: str,
) -> JobRecord:
    """Return the metrics of a job that ended at `at`, a Unix time in seconds.

    Every second between arrival and end is spent waiting (before the first core),
    in service (with cores) or paused (without, after the first). Their sum is the
    total time, the turnaround; Feitelson also calls it response time. It is `ended`
    - `submitted` as long as nobody turns the clock back; while the clock is behind,
    no time is counted.

    Args:
        record: The job; its state lasted until `at`.
        at: When its main process was gone.
        outcome: How it ended.
        exit_code: As a shell gives it, None if not known.
        cpu_seconds: CPU time used, None if not known.
        steps: Done in all, None if it reported none.
        user: Whose job it was, by name.
    """
    last = up_to(record, at)
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
        cpu_seconds=cpu_seconds,
        resizes=record.resizes,
        steps=steps,
    )


def summary(records: Sequence[JobRecord], cpus: int) -> Summary:
    """Return the metrics of a run: of all these jobs together.

    - makespan: from the first arrival to the last end.
    - mean turnaround, mean waiting: plain means over all jobs.
    - mean slowdown: the mean of turnaround divided by time in service. 1 is a job
      that never waited. For a job that changes its size, service is the time it
      had any cores, however many; a job that never had one has no slowdown.
    - throughput: jobs that ended, however they ended, divided by the makespan.
    - utilization: CPU time used divided by CPUs times makespan. Jobs whose CPU
      time is not known count as none, so it is a lower bound then.

    What cannot be said (of no jobs, in no time, for no CPUs) is None.

    Args:
        records: In any order.
        cpus: How many were shared out; 0 if not known.
    """
    makespan = (
        max(0.0, max(r.ended for r in records) - min(r.submitted for r in records))
        if records
        else None
    )
    slowdowns = [r.total_seconds / r.service_seconds for r in records if r.service_seconds > 0]
    cpu_times = [r.cpu_seconds for r in records if r.cpu_seconds is not None]
    return Summary(
        jobs=len(records),
        failures=sum(r.outcome == "failed" for r in records),
        makespan=makespan,
        mean_turnaround=_mean([r.total_seconds for r in records]),
        mean_waiting=_mean([r.waiting_seconds for r in records]),
        mean_slowdown=_mean(slowdowns),
        throughput=len(records) / makespan if makespan else None,
        utilization=sum(cpu_times) / (cpus * makespan) if makespan and cpus and cpu_times else None,
    )


def _mean(numbers: Sequence[float]) -> float | None:
    return fmean(numbers) if numbers else None
