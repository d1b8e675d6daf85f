# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages of the history: jobs that have ended, and their metrics.

Times are Unix times in seconds; durations are in seconds; lists of CPUs are sorted.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.messages import Speed
from tf_malleable.api.schema.services.request_latency import RequestLatency
from tf_malleable.api.schema.tier_reads import TierReading
from tf_malleable.model import JobState
from tf_malleable.model.power import EnergySource

Outcome = Literal["finished", "failed", "cancelled", "interrupted", "unknown"]

# Maximum number of jobs in one answer.
MOST_HISTORY: Final = 100_000


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A job that has ended, with its metrics.

    Attributes:
        id: Job id, unique within the state file.
        name: Name, as submitted.
        command: Command, as submitted.
        user: Owner of the job.
        submitted: Time of arrival.
        started: Time at which the job first had cores; null if it never had any.
        ended: Time at which the last process ended, or the main process if the others were killed.
        outcome: ``"failed"``: the job ended by a signal or with an exit code other than 0.
            ``"cancelled"``: a user cancelled the job, or it ended before it had cores.
            ``"interrupted"``: the host was rebooted before the job had ended, as far as is known.
            ``"unknown"``: the kernel is too old to tell (Linux before 6.15), or the job ended
            while no controller ran.
        exit_code: Exit code of the main process as in a shell, 128 + signal number after a signal;
            null if unknown.
        cause: What ended the job, if neither its own program nor a user did: ``"out-of-memory"``:
            the kernel killed a process of it for lack of memory, as beyond the requested memory;
            ``"time-limit"``: it had reached its time limit; ``"signal 9"``: that signal ended its
            main process; ``"reboot"``: it was interrupted; ``"job 3 did not succeed"``: it was to
            start only after that one ended with exit code 0. Null if none of these is known.
        waiting_seconds: Time before the first core.
        service_seconds: Time with cores.
        paused_seconds: Time without cores after the first core.
        total_seconds: Time from arrival to end (turnaround).
        core_seconds: Integral of the granted cores over time.
        cpu_seconds: CPU time used; null if unknown.
        resizes: Number of changes of the number of cores while the job ran.
        steps: Training steps done; null if none were reported.
        mem: Requested memory in bytes; null if not given.
        peak_mem: Highest observed memory use in bytes; null if unknown.
        area: Area that the energy was counted for; null for the host's.
        energy_joules: Energy drawn for the job beyond that of the idle host; null if unknown.
        energy_source: Weakest source of the energy value; null if there is none.
        gpus: Numbers of the GPUs that the job had.
        output: Output file, as submitted; null if there is none, or for other users.
        min: Minimum number of cores. This and all following fields are null if unknown, as for
            jobs that ended under an older controller.
        preferred: Number of cores asked for.
        max: Maximum number of cores.
        priority: Priority, as submitted.
        weight: Weight, as submitted.
        expected: Expected run time in seconds, as submitted; null if not given.
        speeds: Speeds measured in this job, fewest cores first.
        steps_total: Total training steps, as last announced.
        first_step_seconds: Start phase: time with cores before the first step.
        first_idle_seconds: Part of the start phase in which less than 0.2 CPUs were used.
        last_step_seconds: End phase: time with cores after the last step.
        idle_seconds: Time with cores in which less than 0.2 CPUs were used, for example while
            waiting for input; only between the first and the last reported step if there are any.
        idle_phases: Number of uninterrupted idle phases.
        elastic: Last state of the elastic training; null for other jobs.
        reading: Bytes and files read through a data tier; null without one.
        killed: Number of processes that were killed because they outlived the main process.
        killed_commands: Pid and command of the first 20 of these; none for other users.
        grants: Number of grants that the job has had; 0 if unknown.
        account: User that the job counts for, if that is not its owner, as for subordinate uids.
        array: Name of the job's array, unique among those of its user; null for none.
        group: Name of the job's group, which its user has chosen; null for none.
        slo: Objective of a service, such as ``"p99=50ms"``; null for none.
        latency: Requests that the job has served, and how long they took; null for none.
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
    killed: int = 0
    killed_commands: list[str] = []
    grants: int = 0
    account: str | None = None
    cause: str | None = None
    array: str | None = None
    group: str | None = None
    slo: str | None = None
    latency: RequestLatency | None = None


class Span(msgspec.Struct, frozen=True):
    """Period in which a job's state and CPUs did not change."""

    job: str
    begin: float
    end: float
    state: JobState
    cpus: list[int]


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Metrics over all jobs of a history; null if there are no jobs to compute them from.

    Attributes:
        jobs: Number of jobs that ended.
        failures: Number of these that failed.
        makespan: Time from the first arrival to the last end.
        mean_turnaround: Mean time from arrival to end.
        mean_waiting: Mean time from arrival to the first core.
        mean_slowdown: Mean of turnaround divided by time with cores, or by 10 s if that is more;
            at least 1 for each job.
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
