# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs that have ended, and what they sum up to.

Times are Unix times in seconds, durations seconds; a list of CPUs is sorted.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tf_malleable.api.messages import State

Outcome = Literal["finished", "failed", "cancelled", "unknown"]


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has ended, with its metrics.

    Attributes:
        id: Unique for this state file.
        name: As submitted.
        command: As submitted.
        user: Whose it was.
        submitted: When it arrived.
        started: When it first had cores; null if it never had.
        ended: When its main process was gone.
        outcome: ``"failed"``: it ended by a signal or with a code other than 0.
            ``"unknown"``: the kernel is too old to say (Linux before 6.15).
        exit_code: As a shell gives it, 128 + signal; null if not known.
        waiting_seconds: Before its first core.
        service_seconds: With cores.
        paused_seconds: Without cores after the first.
        total_seconds: From arrival to end, its turnaround.
        core_seconds: Cores granted times seconds.
        cpu_seconds: CPU time used, null if not known.
        resizes: Changes of the number of its cores while running.
        steps: Done in all, null if it reported none.
    """

    id: str
    name: str
    command: list[str]
    user: str
    submitted: float
    started: float | None
    ended: float
    outcome: Outcome
    exit_code: int | None
    waiting_seconds: float
    service_seconds: float
    paused_seconds: float
    total_seconds: float
    core_seconds: float
    cpu_seconds: float | None
    resizes: int
    steps: float | None


class Span(msgspec.Struct, frozen=True):
    """A stretch in which a job's state and CPUs did not change."""

    job: str
    begin: float
    end: float
    state: State
    cpus: list[int]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics of all the jobs of a history together.

    Attributes:
        jobs: How many ended.
        failures: Of those, how many failed.
        makespan: From the first arrival to the last end.
        mean_turnaround: From arrival to end.
        mean_waiting: From arrival to the first core.
        mean_slowdown: Turnaround divided by the time it ran.
        throughput: Jobs that ended, divided by the makespan, per second.
        utilization: CPU time used, divided by CPUs times makespan.
    """

    jobs: int
    failures: int
    makespan: float | None
    mean_turnaround: float | None
    mean_waiting: float | None
    mean_slowdown: float | None
    throughput: float | None
    utilization: float | None


class History(msgspec.Struct, frozen=True):
    """Jobs that have ended, in order of arrival, and what they sum up to."""

    jobs: list[JobRecord]
    spans: list[Span]
    summary: Summary
