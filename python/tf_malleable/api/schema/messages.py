# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Message types of the controller's answers.

The OpenAPI document is generated from the types, so that the two cannot diverge. Times are
Unix times in seconds; durations are in seconds; lists of CPUs are sorted.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.services.request_latency import RequestLatency
from tf_malleable.api.schema.tier_reads import TierReading
from tf_malleable.model import JobState
from tf_malleable.model.need import Lack
from tf_malleable.model.pool import Follows
from tf_malleable.model.power import EnergySource


class ContainerInfo(msgspec.Struct, frozen=True):
    """A container that is a job.

    Attributes:
        id: Full id in the container engine; empty for other users.
        name: Name in the container engine.
        image: Image of the container.
        resize: How the container's CPUs are changed: ``"cpuset"`` (which CPUs it may use) or
            ``"quota"`` (how much CPU time).
    """

    id: str
    name: str
    image: str
    resize: Literal["cpuset", "quota"] = "cpuset"


class Speed(msgspec.Struct, frozen=True):
    """A speed measured with a number of cores."""

    cores: int
    steps_per_second: float


class LibraryThreads(msgspec.Struct, frozen=True):
    """A library with threads of its own that processes of a job have loaded, used or not.

    Attributes:
        name: Its name, such as ``"PyTorch"``.
        follows: How its threads follow the job's cores: ``"free"``, at once; ``"at op
            boundaries"``, from the next operation on; ``"shrink only"``, at once, but within an
            operation not above the number that this began with; ``"confined only"``, not at all:
            only their CPUs change.
        limit: Highest number of threads that it uses on the actual CPUs, unless the program itself
            has set fewer; null if it follows no limit, or if the processes share out the CPUs.
        capacity: Highest limit; null if it follows none.
        pids: Pids of these processes, sorted.
    """

    name: str
    follows: Follows
    limit: int | None
    capacity: int | None
    pids: list[int]


class ScheduledLimits(msgspec.Struct, frozen=True):
    """Limits of a job inside a time window; null leaves one as it is outside.

    Attributes:
        between: Part of the day, in the local time of the host.
        days: Days on which it begins; null for all.
        cores: Number of cores, as if set by hand.
        max: Maximum number of cores.
        priority: Priority.
    """

    between: str
    days: str | None = None
    cores: int | None = None
    max: int | None = None
    priority: int | None = None


class UsualLimits(msgspec.Struct, frozen=True):
    """Limits of a job outside of the time window that is open.

    Attributes:
        cores: Number of cores set by hand; null if the policy decides.
        max: Maximum number of cores.
        priority: Priority.
    """

    cores: int | None
    max: int
    priority: int


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A live job.

    Attributes:
        id: Job id, unique within the state file.
        name: Name, as submitted.
        command: Command, as submitted.
        user: Name of the owner, or the user id if there is no name.
        pid: Pid of the main process; null once it has ended, and for a container that has not been
            started.
        container: Container of the job; null for processes of the host.
        state: State; ``"running"`` as soon as there is a grant, acknowledged or not.
        min: Minimum number of cores; the job does not run with fewer.
        preferred: Number of cores asked for.
        max: Maximum number of cores.
        priority: Priority, as submitted.
        weight: Weight, as submitted.
        output: Output file, as submitted; null if there is none, or for other users.
        after: Ids of jobs that must have ended before this one starts.
        after_ok: Ids of jobs that must have ended with exit code 0 before this one starts.
        array: Name of the job's array, unique among those of its user; null for none.
        group: Name of the job's group, which its user has chosen; null for none.
        time_limit: Time with cores after which the job is ended; null for no limit.
        desired: Number of cores asked for, or set by hand.
        granted: CPUs that the policy has decided on.
        lent: CPUs of the job that it currently lends to other jobs; a service may use them, too.
        actual: CPUs that the job has acknowledged, or that the kernel confines it to where none of
            its processes can, without those that they may not use, as somebody has confined them
            with taskset or a cpuset.
        by_hand: Number of cores set by hand; null while the policy decides.
        paused_by_user: True if a person, not the policy, has paused the job.
        held: Deprecated alias of `paused_by_user`.
        stopped: True if the process (SIGSTOP, Ctrl-Z) or container was stopped, but not by the
            controller.
        malleable: True if an agent applies grants; if false, the controller sets the CPU affinity.
        confined: Reason why TensorFlow, PyTorch or JAX in the job does not follow grants, so that
            the kernel only confines its threads, in one sentence; null if none is known.
        pools: Libraries with threads of their own in the job's processes, the first 50 of them, as
            far as they can be inspected; empty for containers, and for other users.
        is_caller: True if the request is a submission by the job's main process, which cannot
            tell that by its pid in a PID namespace of its own.
        submitted: Time of arrival.
        started: Time at which the job first had cores; null if it never had any.
        waiting_seconds: Time before the first core, so far.
        run_seconds: Time with cores, so far.
        paused_seconds: Time without cores after the first core, so far.
        resizes: Number of changes of the number of cores while the job ran.
        steps_done: Training steps done, as reported; null if unknown.
        steps_total: Total training steps, as reported; null if unknown.
        steps_per_second: Recent speed; null if unknown.
        expected_seconds: Expected run time, as submitted, or else from earlier runs of the same
            command; null if there are none.
        startup_seconds: Expected seconds with cores until the first step begins, from earlier jobs
            with the same user and name; null if none of them reported steps.
        used_cpus: CPUs that the job's processes kept busy recently; null if unknown.
        speeds: Measured speeds, by number of cores; of a job that reports no steps, in parallel
            regions per second.
        mem: Requested memory in bytes; null if not given.
        expected_mem: Peak memory of earlier runs of the same command, in bytes; null if there
            are none.
        used_mem: Memory in use by the job's processes, without files, in bytes; null if unknown.
        peak_mem: Highest observed memory use in bytes; null if unknown.
        gpus: Number of GPUs asked for.
        granted_gpus: Numbers of the GPUs that the job has, until it ends.
        lacks: Resource other than cores that the job waits for: memory or GPUs, of the host or
            within the user's quota, or a place among the running jobs; null if none.
        elastic: State of the elastic training; null for other jobs.
        reading: Bytes and files read through a data tier; null without one.
        area: Area that the energy is counted for; null for the host's.
        energy_joules: Energy drawn for the job beyond that of the idle host, until a second ago;
            null if unknown.
        energy_source: Weakest source of the energy value; null if there is none.
        watts: Power drawn for the job, on average over a second; null if unknown.
        main_ended: Time at which the main process ended; null while it runs.
        exit_code: Exit code of the main process, as in a shell; null if unknown.
        cause: What ends or has ended the main process, other than the program and its user:
            ``"time-limit"``; a signal, such as ``"signal 9"``; or ``"job 3 did not succeed"``: it
            was to start only after that one ended with exit code 0. Null if it does not end so.
        remaining: Number of processes that have outlived the main process.
        reason: Reason why the job has no cores, cannot use all that it is granted, or lasts
            although its main process has ended, in one sentence; null if none of these holds, or
            if the request does not ask for it.
        between: Part of the day in which the job may run, in the local time of the host; null for
            any time.
        days: Days on which that begins; null for all.
        schedule: Limits inside time windows.
        usual_limits: Limits outside of them, while one is open; null while none is.
        slo: Objective of a service, such as ``"p99=50ms"``; null for none.
        latency: Requests that the job has served, and how long they took; null for none.
        as_of: Time up to which the durations count; 0 from an older controller.
    """

    id: str
    name: str
    command: list[str]
    user: str
    pid: int | None
    container: ContainerInfo | None = None
    state: JobState
    min: int
    preferred: int
    max: int
    priority: int
    weight: float
    output: str | None = None
    after: list[str] = []
    after_ok: list[str] = []
    array: str | None = None
    group: str | None = None
    time_limit: float | None = None
    desired: int
    granted: list[int]
    lent: list[int]
    actual: list[int]
    by_hand: int | None
    paused_by_user: bool = False
    held: bool
    stopped: bool
    malleable: bool
    confined: str | None = None
    pools: list[LibraryThreads] = []
    is_caller: bool = False
    submitted: float
    started: float | None
    waiting_seconds: float
    run_seconds: float
    paused_seconds: float
    resizes: int
    steps_done: float | None
    steps_total: float | None
    steps_per_second: float | None
    expected_seconds: float | None = None
    startup_seconds: float | None = None
    used_cpus: float | None
    speeds: list[Speed]
    mem: int | None = None
    expected_mem: float | None = None
    used_mem: int | None = None
    peak_mem: int | None = None
    gpus: int = 0
    granted_gpus: list[int] = []
    lacks: Lack | None = None
    elastic: Elastic | None = None
    reading: TierReading | None = None
    area: str | None = None
    energy_joules: float | None = None
    energy_source: EnergySource | None = None
    watts: float | None = None
    main_ended: float | None = None
    exit_code: int | None = None
    cause: str | None = None
    remaining: int = 0
    reason: str | None = None
    between: str | None = None
    days: str | None = None
    schedule: list[ScheduledLimits] = []
    usual_limits: UsualLimits | None = None
    slo: str | None = None
    latency: RequestLatency | None = None
    as_of: float = 0.0

    def __post_init__(self) -> None:
        # An older controller says only the alias.
        if self.held != self.paused_by_user:
            msgspec.structs.force_setattr(self, "paused_by_user", self.held)


class Outlook(msgspec.Struct, frozen=True):
    """Reason why a job has no cores, and its expected start.

    Attributes:
        reason: Reason why the job has no cores, or lasts although its main process has ended, in
            one sentence; null if neither holds.
        expected_start: Time at which the job is expected to have cores; null if unforeseeable.
        guessed: True if the run time of a job that has cores before this one is a guess.
    """

    reason: str | None
    expected_start: float | None = None
    guessed: bool = False


class CoreChange(msgspec.Struct, frozen=True):
    """A job whose number of cores would change.

    Attributes:
        id: Id of the job.
        name: Name, as submitted.
        user: Name of the owner, or the user id if there is no name.
        before: Current number of cores, used or lent.
        after: Number of cores after the change.
    """

    id: str
    name: str
    user: str
    before: int
    after: int


class Preview(msgspec.Struct, frozen=True):
    """The jobs whose number of cores would change, in order of arrival."""

    changes: list[CoreChange]


class Jobs(msgspec.Struct, frozen=True):
    """All live jobs, in order of arrival."""

    jobs: list[JobStatus]


class CpuInfo(msgspec.Struct, frozen=True):
    """One CPU: its number, and the numbers of its physical core and its NUMA node."""

    id: int
    core: int
    node: int


class ControllerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """State of the controller.

    Attributes:
        version: Version of tf_malleable.
        protocol: Version of this protocol: the 1 of /v1.
        pid: Pid of the controller.
        started: Time at which the controller was started.
        policy: Policy in force.
        cpus: CPUs that are divided among the jobs.
        problem: Current problem of the controller; null if there is none.
        gpus: Numbers of the GPUs that are shared out.
        max_running: Maximum number of jobs that have started and not ended; null for no limit.
        user: Name of the user as whom the controller runs.
        log: File that a controller in the background logs to; null for one in the foreground.
        idle_end: Seconds without jobs and requests after which the controller ends; null for never.
        cpu_weights: What has a weight of CPU time, or why nothing has, for people.
    """

    version: str
    protocol: int
    pid: int
    started: float
    policy: str
    cpus: list[CpuInfo]
    problem: str | None
    gpus: list[int] = []
    max_running: int | None = None
    user: str = ""
    log: str | None = None
    idle_end: float | None = None
    cpu_weights: str = ""


class PolicyInfo(msgspec.Struct, frozen=True):
    """An available policy: its name and a one-line summary."""

    name: str
    summary: str


class Policies(msgspec.Struct, frozen=True):
    """The policy in force and the available ones."""

    policy: str
    available: list[PolicyInfo]


class Problem(msgspec.Struct, frozen=True):
    """Reason why a request was refused, in one sentence."""

    error: str
