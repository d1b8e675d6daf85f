# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The record that the controller keeps of a live job, in memory and on disk."""

from __future__ import annotations

from dataclasses import dataclass

from tf_malleable.api.messages import ContainerInfo
from tf_malleable.model import NO_GRANT, Grant, JobState, ProcessId, Shape
from tf_malleable.model.power import EnergySource


@dataclass(frozen=True)
class Record:
    """A live job. Times are Unix times in seconds; sums are up to `since`.

    Attributes:
        id: Counts up from "1" in a state file.
        name: As submitted.
        command: As submitted.
        process: Its main process; None for a container that has not been started yet.
        uid: User id of the job.
        shape: The cores it asks for.
        priority: Higher goes first.
        weight: Its share relative to others.
        submitted: When it arrived.
        started: When it first had cores.
        state: Waiting, running or paused.
        entered: When it entered its state.
        since: When `state` or `grant` last changed, or the sums were last updated.
        grant: Its current grant.
        serial: Serial number of the grant; acknowledgements name it.
        by_hand: Number of cores set by a person.
        held: Paused by a person.
        cancelled: Cancelled by a person; it may take a while to end.
        waiting_seconds: Time in state waiting, up to `since`.
        run_seconds: Time in state running, up to `since`.
        paused_seconds: Time in state paused, up to `since`.
        core_seconds: Cores granted times seconds, up to `since`.
        resizes: How often its number of cores changed while it ran.
        container: The container it runs in; None for processes of the host.
        time_limit: Seconds with cores after which it is ended; None for no limit.
        expected: Seconds that it is expected to run, as submitted; None if nothing was said.
        after: Ids of jobs that must have ended before it starts.
        array: Names the array that it belongs to, among those of its user; None for none.
        at_once: So many jobs of the array may have started and not ended; None for all.
        output: File that its output goes to, as submitted.
        cgroup: Folder of the cgroup that has all its processes; None if there is none.
        mem: Memory in bytes that it has asked for; None if it did not say.
        gpus_wanted: Number of GPUs that it has asked for.
        gpus: Numbers of the GPUs that it has; None before it starts, or without GPUs here.
        area: The area that its energy is counted for; None for the host's.
        energy_joules: What was drawn for it so far; None if nothing was metered.
        energy_source: Where that is from, at worst.
    """

    id: str
    name: str
    command: tuple[str, ...]
    process: ProcessId | None
    uid: int
    shape: Shape
    priority: int
    weight: float
    submitted: float
    entered: float
    since: float
    state: JobState = "waiting"
    started: float | None = None
    grant: Grant = NO_GRANT
    serial: int = 0
    by_hand: int | None = None
    held: bool = False
    cancelled: bool = False
    waiting_seconds: float = 0.0
    run_seconds: float = 0.0
    paused_seconds: float = 0.0
    core_seconds: float = 0.0
    resizes: int = 0
    container: ContainerInfo | None = None
    time_limit: float | None = None
    expected: float | None = None
    after: tuple[str, ...] = ()
    array: str | None = None
    at_once: int | None = None
    output: str | None = None
    cgroup: str | None = None
    mem: int | None = None
    gpus_wanted: int = 0
    gpus: tuple[int, ...] | None = None
    area: str | None = None
    energy_joules: float | None = None
    energy_source: EnergySource | None = None

    @property
    def title(self) -> str:
        """Its id and name, for the log."""
        return f"job {self.id} ({self.name})"

    @property
    def program(self) -> str:
        """Its name, without its index in an array: what one of these teaches is true for all."""
        if self.array is None:
            return self.name
        return self.name.rpartition("[")[0] or self.name
