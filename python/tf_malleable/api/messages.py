# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Types of the controller's answers.

The OpenAPI document is generated from them, so that the two cannot diverge. Times are
Unix times in seconds; durations are in seconds; lists of CPUs are sorted.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tf_malleable.api.elastic import Elastic
from tf_malleable.api.tier_reading import TierReading
from tf_malleable.model import JobState
from tf_malleable.model.need import Lack
from tf_malleable.model.power import EnergySource


class ContainerInfo(msgspec.Struct, frozen=True):
    """A container that is a job.

    Attributes:
        id: Its full id in the container engine.
        name: Its name in the container engine.
        image: Its image.
        resize: How its CPUs are changed: ``"cpuset"`` (which CPUs it may use) or
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


class JobStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A live job.

    Attributes:
        id: Unique within the state file.
        name: As submitted.
        command: As submitted.
        user: Its owner's name, or number if there is no name.
        pid: Its main process; null for a container that has not been started.
        container: The container; null for processes of the host.
        state: ``"running"`` as soon as it has a grant, acknowledged or not.
        min: It does not run with fewer cores.
        preferred: Cores it asks for.
        max: Most cores it can use.
        priority: As submitted.
        weight: As submitted.
        output: As submitted; null if there is none, or for other users.
        after: Ids of jobs that must have ended before it starts.
        time_limit: Time with cores after which it is ended; null for no limit.
        desired: Cores it asks for, or cores set by hand.
        granted: CPUs the policy has decided on.
        lent: CPUs of its own that it lends to other jobs now.
        actual: CPUs it has acknowledged.
        by_hand: Cores set by hand; null while the policy decides.
        held: Paused by a person, not by the policy.
        stopped: Its process (SIGSTOP, Ctrl-Z) or container was stopped by somebody else.
        malleable: Its agent applies grants; if false, the controller sets its CPU affinity.
        is_caller: The request is a submission by its main process, which cannot tell by its pid
            if it is in a PID namespace of its own.
        submitted: Time of arrival.
        started: When it first had cores; null if it never had.
        waiting_seconds: Time before its first core, so far.
        run_seconds: Time with cores, so far.
        paused_seconds: Time without cores after its first, so far.
        resizes: How often the number of its cores changed while it ran.
        steps_done: Training steps done, as reported; null if unknown.
        steps_total: Training steps at its end, as reported; null if unknown.
        steps_per_second: Recent speed; null if unknown.
        expected_seconds: Expected run time, as submitted, or else from earlier runs of the same
            command; null if there are none.
        used_cpus: CPUs its processes kept busy recently; null if unknown.
        speeds: Measured speeds, by number of cores.
        mem: Memory in bytes that it has asked for; null if it did not say.
        expected_mem: Memory in bytes that earlier runs of the same command used at most; null
            if there are none.
        used_mem: Memory in bytes that its processes use, without files; null if unknown.
        peak_mem: The most that it was seen to use, in bytes; null if unknown.
        gpus: Number of GPUs that it has asked for.
        granted_gpus: Numbers of the GPUs that it has, until it ends.
        lacks: What it waits for other than cores: memory, GPUs, or that fewer jobs run; null
            if nothing.
        elastic: Its generations; null if it is not an elastic training.
        reading: What it has read of a data tier's files; null if it reads through none.
        area: The area that its energy is counted for; null for the host's.
        energy_joules: What was drawn for it beyond what the idle host draws, until a second ago;
            null if unknown.
        energy_source: Where that is from, at worst; null if there is none.
        watts: What is drawn for it now, on average over a second; null if unknown.
        reason: Why it has no cores, in one sentence; null if it has some, and where this was not
            asked for.
        as_of: The time up to which its durations count; 0 from an older controller.
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
    time_limit: float | None = None
    desired: int
    granted: list[int]
    lent: list[int]
    actual: list[int]
    by_hand: int | None
    held: bool
    stopped: bool
    malleable: bool
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
    reason: str | None = None
    as_of: float = 0.0


class Outlook(msgspec.Struct, frozen=True):
    """What a job without cores waits for.

    Attributes:
        reason: Why it has no cores, in one sentence; null if it has some.
        expected_start: When it is expected to have cores; null if that cannot be foreseen.
        guessed: The run time of some job that has cores before it is not known, but guessed.
    """

    reason: str | None
    expected_start: float | None = None
    guessed: bool = False


class CoreChange(msgspec.Struct, frozen=True):
    """A job whose number of cores would change.

    Attributes:
        id: Its id.
        name: As submitted.
        user: Its owner's name, or number if there is no name.
        before: Cores it has now, used or lent.
        after: Cores it would have.
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
    """One CPU: its number, its physical core's and its NUMA node's."""

    id: int
    core: int
    node: int


class ControllerInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The controller itself.

    Attributes:
        version: Its version of tf_malleable.
        protocol: Version of this protocol: the 1 of /v1.
        pid: Its process.
        started: When it was started.
        policy: The policy in force.
        cpus: The CPUs it divides among the jobs.
        problem: What prevents it from working fully; null if nothing does.
        gpus: Numbers of the GPUs that it shares out.
        max_running: How many jobs may have started and not ended; null for no limit.
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


class PolicyInfo(msgspec.Struct, frozen=True):
    """An available policy: its name and a one-line summary."""

    name: str
    summary: str


class Policies(msgspec.Struct, frozen=True):
    """The policy in force and the available ones."""

    policy: str
    available: list[PolicyInfo]


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused, in one sentence."""

    error: str
