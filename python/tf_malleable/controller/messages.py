# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What travels over the controller's socket, as types.

The OpenAPI document is made from these, and requests are checked against them,
so that neither can drift from the other. Times are Unix times in seconds,
durations seconds; a list of CPUs is sorted.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Cores = Annotated[int, Meta(ge=1, le=65536)]
Count = Annotated[int, Meta(ge=0, le=2**53)]
# Up to where the next integer is a float of its own, so that it is refused.
Steps = Annotated[float, Meta(ge=0, le=10**15)]
# Names are printed on terminals: no control characters.
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$")]
Argument = Annotated[str, Meta(max_length=4096)]

State = Literal["waiting", "running", "paused"]
Outcome = Literal["finished", "failed", "cancelled", "unknown"]


class Request(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a client sends. A field that is not known is refused."""


class Submission(Request, frozen=True):
    """A process asks for cores; which process, the kernel says.

    Attributes:
        name: What people call the job; speeds are learned by it.
        command: The program and its arguments, for people to read.
        min: With fewer cores it does not run.
        preferred: What it asks for; by default max.
        max: More would not help; by default all of the machine.
        priority: Higher goes first, in policies that look at it.
        weight: Share against others, in policies that look at it.
        queue: Wait until there are cores; otherwise be refused.
        running: The process is computing already: it joins, it does not queue.
    """

    name: Name
    command: Annotated[list[Argument], Meta(max_length=256)] = []
    min: Cores = 1
    preferred: Cores | None = None
    max: Cores | None = None
    priority: Annotated[int, Meta(ge=-1000, le=1000)] = 0
    weight: Annotated[float, Meta(gt=0, le=1000)] = 1.0
    queue: bool = True
    running: bool = False


class Acknowledgement(Request, frozen=True):
    """An agent has carried out the grant with this serial number.

    Its process runs on the granted CPUs and no others from now on.

    Attributes:
        serial: The grant's.
        settled: No pool has more active workers than its limit any more: they no
            longer take turns on these CPUs either.
    """

    serial: Count
    settled: bool = True


class Progress(Request, frozen=True):
    """What a job's agent knows of it.

    Attributes:
        steps_done: Training steps so far, since the process started.
        steps_total: Steps it will have done at its end, as far as known.
        cpu_seconds: CPU time of the process so far.
        active: Workers of TensorFlow's pools running a task at this instant.
        queued: Tasks that wait in TensorFlow's pools.
        threads: The limit in force, intra-op; None without TensorFlow.
    """

    steps_done: Steps | None = None
    steps_total: Steps | None = None
    cpu_seconds: Annotated[float, Meta(ge=0, le=10**15)] | None = None
    active: Count | None = None
    queued: Count | None = None
    threads: Count | None = None


class ByHand(Request, frozen=True):
    """Cores set by hand; null hands the job back to the policy."""

    cores: Cores | None


class PolicyChange(Request, frozen=True):
    """The policy to use from now on, ``"priority-strict:ageing=60"`` say."""

    policy: Name


class ContainerTaken(Request, frozen=True):
    """A container that is to be a job.

    Attributes:
        container: Its id, or its name.
    """

    container: Name


class GrantLine(msgspec.Struct, frozen=True):
    """One line of the stream of grants.

    Attributes:
        serial: To acknowledge it with; grows with every change.
        state: Of the job.
        cpus: The CPUs it may use.
        lent: CPUs of its own that others may use now.
        confined: The job is a container, which is confined to these CPUs already or
            will be: its processes set their limits and leave their affinity alone.
    """

    serial: int
    state: State
    cpus: list[int]
    lent: list[int]
    confined: bool = False


class ContainerInfo(msgspec.Struct, frozen=True):
    """A container that is a job.

    Attributes:
        id: As its engine has it, whole.
        name: As its engine has it.
        image: What it was made from.
        resize: What is changed of it: ``"cpuset"``, the CPUs it may use, or
            ``"quota"``, how much CPU time.
    """

    id: str
    name: str
    image: str
    resize: Literal["cpuset", "quota"] = "cpuset"


class Speed(msgspec.Struct, frozen=True):
    """So many steps a second, measured with so many cores."""

    cores: int
    steps_per_second: float


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A live job.

    Attributes:
        id: Unique for this state file.
        name: As submitted.
        command: As submitted.
        user: Whose it is, by name or else by number.
        pid: Its main process; null for a container that was not started yet.
        container: What it is in; null for processes of the host.
        state: ``"running"`` from the grant on, acknowledged or not.
        min: Of its shape.
        preferred: Of its shape.
        max: Of its shape.
        priority: As submitted.
        weight: As submitted.
        desired: Cores it asks for, or that were set by hand.
        granted: CPUs the policy decided on.
        lent: CPUs of its own that others may use now.
        actual: CPUs it has acknowledged.
        by_hand: Cores set by hand; null while the policy decides.
        held: Paused by a person, not by the policy.
        stopped: Somebody else has stopped its process (SIGSTOP, Ctrl-Z) or its container.
        malleable: An agent in it carries out grants; otherwise CPU affinity does.
        submitted: When it arrived.
        started: When it first had cores.
        waiting_seconds: Until it had its first core, so far.
        run_seconds: With cores, so far.
        paused_seconds: Without cores after the first, so far.
        resizes: Changes of the number of its cores while running.
        steps_done: As reported.
        steps_total: As reported.
        steps_per_second: Lately.
        expected_seconds: How long it will run in all, as the same command ran before;
            null if it never came to its end.
        used_cpus: CPUs its processes kept busy, lately.
        speeds: Measured, by number of cores.
    """

    id: str
    name: str
    command: list[str]
    user: str
    pid: int | None
    container: ContainerInfo | None = None
    state: State
    min: int
    preferred: int
    max: int
    priority: int
    weight: float
    desired: int
    granted: list[int]
    lent: list[int]
    actual: list[int]
    by_hand: int | None
    held: bool
    stopped: bool
    malleable: bool
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
    used_cpus: float | None
    speeds: list[Speed]


class Jobs(msgspec.Struct, frozen=True):
    """All live jobs, in order of arrival."""

    jobs: list[JobStatus]


class CpuInfo(msgspec.Struct, frozen=True):
    """One CPU: its number, its physical core's and its NUMA node's."""

    id: int
    core: int
    node: int


class ControllerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The controller itself.

    Attributes:
        version: Of tf_malleable.
        protocol: Version of this protocol: the 1 of /v1.
        pid: Its process.
        started: When.
        policy: In force.
        cpus: What it shares out.
        problem: What keeps it from doing all it should; null if nothing does.
    """

    version: str
    protocol: int
    pid: int
    started: float
    policy: str
    cpus: list[CpuInfo]
    problem: str | None


class PolicyInfo(msgspec.Struct, frozen=True):
    """A policy that can be chosen: its name and what it does, in a line."""

    name: str
    summary: str


class Policies(msgspec.Struct, frozen=True):
    """The policy in force and those that can be chosen."""

    policy: str
    available: list[PolicyInfo]


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


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused, in one sentence."""

    error: str
