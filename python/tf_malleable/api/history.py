# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages about jobs that have ended, and their metrics.

Times are Unix times in seconds; durations are in seconds; lists of CPUs are sorted.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tf_malleable.api.elastic import Elastic
from tf_malleable.api.messages import Speed
from tf_malleable.api.tier_reading import TierReading
from tf_malleable.model import JobState
from tf_malleable.model.power import EnergySource

Outcome = Literal["finished", "failed", "cancelled", "unknown"]

# The most jobs that can be asked for at once.
MOST_HISTORY: Final = 100_000


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has ended, with its metrics.

    Attributes:
        id: Unique within the state file.
        name: As submitted.
        command: As submitted.
        user: Its owner.
        submitted: Time of arrival.
        started: When it first had cores; null if it never had.
        ended: When its main process ended.
        outcome: ``"failed"``: it ended by a signal or with an exit code other than 0.
            ``"cancelled"``: a user cancelled it, or it ended before it had cores.
            ``"unknown"``: the kernel is too old to tell (Linux before 6.15), or it ended while
            no controller ran.
        exit_code: As in a shell, 128 + signal number after a signal; null if unknown.
        waiting_seconds: Time before its first core.
        service_seconds: Time with cores.
        paused_seconds: Time without cores after its first.
        total_seconds: Time from arrival to end (turnaround).
        core_seconds: Integral of its granted cores over time.
        cpu_seconds: CPU time used; null if unknown.
        resizes: How often the number of its cores changed while it ran.
        steps: Training steps done; null if it reported none.
        mem: Memory in bytes that it had asked for; null if it did not say.
        peak_mem: The most memory that it was seen to use, in bytes; null if unknown.
        area: The area that its energy was counted for; null for the host's.
        energy_joules: What was drawn for it beyond what the idle host draws; null if unknown.
        energy_source: Where that is from, at worst; null if there is none.
        gpus: Numbers of the GPUs that it had.
        output: As submitted; null if there is none, or for other users.
        min: It did not run with fewer cores. This and all after it are null if they are
            unknown, as for jobs that ended under an older controller.
        preferred: Cores it asked for.
        max: Most cores it could use.
        priority: As submitted.
        weight: As submitted.
        expected: Seconds that it was expected to run, as submitted; null if nothing was said.
        speeds: Its own measured speeds, fewest cores first.
        steps_total: Training steps at its end, as it last announced them.
        first_step_seconds: Time with cores before its first step: its start.
        first_idle_seconds: The part of it in which it used less than 0.2 CPUs.
        last_step_seconds: Time with cores after its last step: its end.
        idle_seconds: Time with cores in which it used less than 0.2 CPUs, as while it waited
            for input; only between its first and its last reported step if it reported any.
        idle_phases: Number of uninterrupted phases of these.
        elastic: Its last generation; null if it was not an elastic training.
        reading: What it has read of a data tier's files; null if it read through none.
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
    mem: int | None = None
    peak_mem: int | None = None
    area: str | None = None
    energy_joules: float | None = None
    energy_source: EnergySource | None = None
    gpus: list[int] = []
    output: str | None = None
    min: int | None = None
    preferred: int | None = None
    max: int | None = None
    priority: int | None = None
    weight: float | None = None
    expected: float | None = None
    speeds: list[Speed] | None = None
    steps_total: float | None = None
    first_step_seconds: float | None = None
    first_idle_seconds: float | None = None
    last_step_seconds: float | None = None
    idle_seconds: float | None = None
    idle_phases: int | None = None
    elastic: Elastic | None = None
    reading: TierReading | None = None


class Span(msgspec.Struct, frozen=True):
    """A period in which a job's state and CPUs did not change."""

    job: str
    begin: float
    end: float
    state: JobState
    cpus: list[int]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics over all jobs of a history. Null if there are no jobs to compute them from.

    Attributes:
        jobs: Number of jobs that ended.
        failures: Number of these that failed.
        makespan: Time from the first arrival to the last end.
        mean_turnaround: Mean time from arrival to end.
        mean_waiting: Mean time from arrival to the first core.
        mean_slowdown: Mean of turnaround divided by time with cores.
        throughput: Jobs that ended divided by the makespan, per second.
        utilization: CPU time used divided by CPUs times makespan.
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
    """Jobs that have ended, in order of arrival, and their metrics."""

    jobs: list[JobRecord]
    spans: list[Span]
    summary: Summary
