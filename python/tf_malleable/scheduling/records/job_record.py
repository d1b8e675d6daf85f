# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The record that the controller keeps of a live job, in memory and on disk."""

from __future__ import annotations

from dataclasses import dataclass

from tf_malleable.api.schema.messages import ContainerInfo
from tf_malleable.model import NO_GRANT, Grant, JobState, ProcessId, Shape
from tf_malleable.model.power import EnergySource
from tf_malleable.model.schedules.time_window import TimeWindow
from tf_malleable.model.services.slo import Slo
from tf_malleable.scheduling.records.limit_schedule import LimitsOutside, WindowLimits


@dataclass(frozen=True)
class Record:
    """Record of a live job. Times are Unix times in seconds; sums are up to `since`.

    Attributes:
        id: Job id; counts up from "1" in a state file.
        name: Name, as submitted.
        command: Command, as submitted.
        process: Main process, which may have ended; None for a container that has not been
            started yet.
        uid: User id of the job.
        shape: Requested cores.
        priority: Priority; higher goes first.
        weight: Share relative to others.
        submitted: Time of arrival.
        started: Time at which the job first had cores.
        state: Waiting, running or paused.
        entered: Time at which the job entered its state.
        since: When `state` or `grant` last changed, or the sums were last updated.
        grant: Current grant.
        serial: Serial number of the grant; acknowledgements name it.
        by_hand: Number of cores set by a person.
        held: True if paused by a person, as state files name it.
        cancelled: True if cancelled by a person; the job may take a while to end.
        waiting_seconds: Time in state waiting, up to `since`.
        run_seconds: Time in state running, up to `since`.
        paused_seconds: Time in state paused, up to `since`.
        core_seconds: Cores granted times seconds, up to `since`.
        resizes: Number of changes of the number of cores while the job ran.
        resized: Time of the last of these changes that no person has made; None before.
        unrest: Number of these, of which older ones count less; as of `resized`.
        container: Container that the job runs in; None for processes of the host.
        time_limit: Seconds with cores after which the job is ended; None for no limit.
        expected: Expected run time in seconds, as submitted; None if not given.
        after: Ids of jobs that must have ended before this one starts.
        array: Name of the job's array, unique among those of its user; None for none.
        at_once: Maximum number of started, not ended jobs of the array; None for all.
        output: File for the output, as submitted.
        cgroup: Directory of the cgroup that has all processes of the job; None if there is none.
        mem: Requested memory in bytes; None if not given.
        gpus_wanted: Number of requested GPUs.
        gpus: Numbers of the job's GPUs; None before it starts, or on a host without GPUs.
        area: Area that the job's energy is counted for; None for the area of the host.
        energy_joules: Energy drawn for the job so far; None if nothing was metered.
        energy_source: Least reliable origin of that value.
        kill_leftovers: True if processes that outlive the main process are killed.
        main_ended: Time at which the main process ended; None while it runs.
        exit_code: Exit code of the main process, as in a shell; None if unknown.
        signal: Number of the signal that ended the main process; None if it exited.
        overdue: True if the job has reached its time limit; it is then cancelled, too.
        memory_cgroup: Directory of the cgroup in which its memory is limited; None if it is not.
        leftovers: Processes that have outlived the main process, if the job has no cgroup.
        after_ok: Ids of jobs that must have ended with exit code 0 before this one starts.
        unmet: Id of one of these that has ended otherwise; the job is then cancelled, too.
        group: Name of the job's group, which its user has chosen; None for none.
        slo: Objective of a service; None for none.
        account: User id that the job is counted for, in limits and shares per user; None for `uid`.
        window: Time window in which the job may run; None for any time.
        schedule: Limits inside time windows.
        usual_limits: Limits outside of them, while one is open; None while none is.
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
    resized: float | None = None
    unrest: float = 0.0
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
    kill_leftovers: bool = False
    main_ended: float | None = None
    exit_code: int | None = None
    signal: int | None = None
    overdue: bool = False
    memory_cgroup: str | None = None
    leftovers: tuple[ProcessId, ...] = ()
    account: int | None = None
    window: TimeWindow | None = None
    schedule: tuple[WindowLimits, ...] = ()
    usual_limits: LimitsOutside | None = None
    after_ok: tuple[str, ...] = ()
    unmet: str | None = None
    group: str | None = None
    slo: Slo | None = None

    @property
    def counted_for(self) -> int:
        """User id that the job is counted for, in limits and shares per user."""
        return self.uid if self.account is None else self.account

    @property
    def cause(self) -> str | None:
        """What ends or has ended the main process, other than itself; see JobRecord.cause."""
        if self.overdue:
            return "time-limit"
        if self.unmet is not None:
            return f"job {self.unmet} did not succeed"
        # Whoever cancels a job knows that it ends by a signal.
        return None if self.signal is None or self.cancelled else f"signal {self.signal}"

    @property
    def title(self) -> str:
        """Id and name of the job, for the log."""
        return f"job {self.id} ({self.name})"

    @property
    def program(self) -> str:
        """Name of the job without its array index: lessons of one job hold for the whole array."""
        if self.array is None:
            return self.name
        return self.name.rpartition("[")[0] or self.name
