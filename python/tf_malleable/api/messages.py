# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What travels over the controller's socket, as types.

The OpenAPI document is made from these, and requests are checked against them,
so that neither can drift from the other. Times are Unix times in seconds,
durations seconds; a list of CPUs is sorted.
"""

from __future__ import annotations

from typing import Literal

import msgspec

State = Literal["waiting", "running", "paused"]


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


class Problem(msgspec.Struct, frozen=True):
    """Why a request was refused, in one sentence."""

    error: str
