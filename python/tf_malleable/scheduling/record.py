# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""All that the controller keeps of one job, live and on disk."""

from __future__ import annotations

from dataclasses import dataclass

from tf_malleable.api.messages import ContainerInfo
from tf_malleable.model import NO_GRANT, Grant, JobState, ProcessId, Shape


@dataclass(frozen=True)
class Record:
    """A live job. Times are Unix times in seconds, sums are up to `since`.

    Attributes:
        id: Counts up from "1" in a state file.
        name: As submitted.
        command: As submitted.
        process: Its main process; None for a container that was not started yet.
        uid: Whose process it is.
        shape: The cores it asks for.
        priority: Higher goes first.
        weight: Share against others.
        submitted: When it arrived.
        started: When it first had cores.
        state: Waiting, running or paused.
        entered: When it entered its state.
        since: From when `grant` is as it is.
        grant: What it is granted.
        serial: Of the grant; an acknowledgement names it.
        by_hand: Cores set by a person.
        held: Paused by a person.
        waiting_seconds: In state waiting, before `since`.
        run_seconds: In state running, before `since`.
        paused_seconds: In state paused, before `since`.
        core_seconds: Cores granted times seconds, before `since`.
        resizes: Changes of the number of its cores while running.
        container: What it is in; None for processes of the host.
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
    waiting_seconds: float = 0.0
    run_seconds: float = 0.0
    paused_seconds: float = 0.0
    core_seconds: float = 0.0
    resizes: int = 0
    container: ContainerInfo | None = None
