# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Live job: its record, and the state that does not outlive the controller."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.controller.jobs.grant_streams import Streams
from tf_malleable.controller.ports import Container
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.cgroups.memory_cgroup import MemoryGroup
from tf_malleable.model import Cpuset, Grant, Job, ProcessId, Rate
from tf_malleable.model.need import Lack
from tf_malleable.scheduling.decision import policy_input
from tf_malleable.scheduling.decision.wake_demand import Queueing
from tf_malleable.scheduling.records import time_accounts
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Lessons
from tf_malleable.scheduling.records.phases import Phases
from tf_malleable.scheduling.records.speeds import Speedometer
from tf_malleable.scheduling.records.usage import FULL, Usage

# Time within which a submitted program must open its grant stream.
_CONNECT_SECONDS = 5.0
# Time between SIGTERM and SIGKILL.
_CANCEL_SECONDS = 10.0
_NEVER = -1


@dataclass
class LiveJob:
    """A live job. Only its own methods change it. Times are Unix times in seconds.

    Attributes:
        record: The part of the state that is also kept on disk.
        pidfd: Pidfd of the main process, readable once it has ended; None without a process.
        lessons: Knowledge from earlier similar jobs.
        tree: Pids of the job's processes, as of the last survey.
        starts: Start times by pid, of these and maybe others, in clock ticks since boot.
        expected_until: Time until which a waiting program need not be connected.
        agents: Serial number last acknowledged, by pid of each connected process.
        splitters: Pids of the agents that split each grant among the other processes.
        actual: CPUs that the job has acknowledged.
        published: Time at which the current grant was published, on the monotonic clock; None
            once it is acknowledged.
        enforced: True if the current grant was enforced from outside.
        suspended: True if the controller has stopped the job's processes.
        stopped: True if the job's processes were stopped, but not by the controller.
        kill_at: Time at which to end the job by force; None for never.
        reporter: Pid of the process whose steps count; None for none.
        speed: Progress and measured speeds.
        usage: CPUs that the job keeps busy.
        phases: Phases of the job's use of its cores.
        queueing: CPUs that the job waits for while it lends all its own.
        last_level: Level at the last decision.
        known: Knowledge of the speed at the last decision.
        streams: Open streams of the job's grants.
        over: True if the job has ended.
        container: Controls the job's container; None for processes of the host.
        diverged: True if the container's state differs from the last command.
        group: Cgroup of the job; None for containers, and where none could be made.
        memory_group: Cgroup in which the memory is limited; None if it is not.
        used_mem: Memory in use, in bytes; None if unknown.
        peak_mem: Highest observed memory use, in bytes; None if unknown.
        lack: Resource other than cores that the job waits for; None if none.
        elastic: State of the elastic training; None for other jobs.
    """

    record: Record
    pidfd: int | None
    lessons: Lessons
    tree: list[int]
    starts: Mapping[int, int] = field(default_factory=dict)
    expected_until: float = 0.0
    agents: dict[int, int] = field(default_factory=dict)
    splitters: set[int] = field(default_factory=set)
    actual: Cpuset = frozenset()
    published: float | None = None
    enforced: bool = False
    suspended: bool = False
    stopped: bool = False
    kill_at: float | None = None
    reporter: int | None = None
    speed: Speedometer = field(default_factory=Speedometer)
    usage: Usage = field(default_factory=Usage)
    phases: Phases = field(default_factory=Phases)
    queueing: Queueing = field(default_factory=Queueing)
    last_level: int = FULL
    known: policy_input.Known = field(default_factory=policy_input.Known)
    streams: Streams = field(default_factory=Streams)
    over: bool = False
    container: Container | None = None
    diverged: bool = False
    group: JobGroup | None = None
    memory_group: MemoryGroup | None = None
    used_mem: int | None = None
    peak_mem: int | None = None
    lack: Lack | None = None
    elastic: Elastic | None = None
    _idle: tuple[Record, Speedometer, Lessons, Job] | None = None

    # Mutators; nothing else assigns to its attributes.

    def expect(self, now: float) -> None:
        """Let the job wait in the queue although no process has connected yet."""
        self.expected_until = now + _CONNECT_SECONDS

    def connect(self, pid: int, *, splits: bool = False) -> None:
        """Expect a process to acknowledge grants; with `splits`, also to split them."""
        self.agents.setdefault(pid, _NEVER)
        if splits:
            self.splitters.add(pid)

    def disconnect(self, pid: int) -> bool:
        """Stop expecting a process; return whether no agent is left to apply the grant."""
        acknowledged = self.agents.pop(pid, None) == self.record.serial
        self.splitters.discard(pid)
        return not self.agents and not acknowledged

    def acknowledge(self, pid: int, serial: int) -> None:
        """Record that a connected process has carried out a grant."""
        if pid in self.agents:
            self.agents[pid] = serial

    def attach_process(self, process: ProcessId, pidfd: int) -> None:
        """Set the main process and take ownership of the pidfd."""
        self.record = replace(self.record, process=process)
        self.pidfd, self.tree = pidfd, [process.pid]
        self.starts = {process.pid: process.start}

    def attach_container(self, container: Container) -> None:
        """Set the container that the grants go to."""
        self.container = container

    def attach_group(self, group: JobGroup | None) -> None:
        """Set the cgroup that contains all processes of the job."""
        self.group = group
        self.record = replace(self.record, cgroup=None if group is None else str(group.folder))

    def attach_memory(self, group: MemoryGroup | None) -> None:
        """Set the cgroup in which the memory is limited."""
        self.memory_group = group

    def note_memory(self, used: int) -> None:
        """Record the memory in use, in bytes."""
        self.used_mem, self.peak_mem = used, max(used, self.peak_mem or 0)

    def note_lack(self, lack: Lack | None) -> None:
        """Record the resource other than cores that the job waits for; None for none."""
        self.lack = lack

    def amend(self, record: Record) -> None:
        """Replace the record."""
        self.record = record

    def learn(self, lessons: Lessons) -> None:
        """Replace the knowledge from earlier jobs."""
        self.lessons = lessons

    def take(self, grant: Grant, now: float) -> Record:
        """Accept a new grant, to be carried out; return the previous record."""
        before = self.record
        self.record = time_accounts.granted(before, grant, now)
        self.enforced = False
        if not grant.cpus <= before.grant.cpus:
            # The usage of the old CPUs says nothing about the new ones.
            self.usage.forget()
        if not self.lends_all:
            self.queueing.forget()
        self.published = time.monotonic() if grant else None
        if not grant:
            self.actual = frozenset()
            self.speed = self.speed.change(0, now)
        self.streams.wake()
        return before

    def settle(self, now: float) -> float | None:
        """Mark the grant as actual if every agent has acknowledged it.

        For a container, the kernel must also confirm it. Without agents, it must have been
        enforced from outside.

        Returns:
            Seconds since the grant was published, the first time; otherwise None.
        """
        if self.record.state != "running" or self.stopped:
            return None
        if any(serial != self.record.serial for serial in self.agents.values()):
            return None
        if not self.enforced and (not self.agents or self.container is not None):
            return None
        seconds = None if self.published is None else time.monotonic() - self.published
        self.published = None
        self.actual = self.record.grant.cpus
        self.speed = self.speed.change(len(self.actual), now)
        return seconds

    def note_enforced(self) -> None:
        """Record that the current grant was enforced from outside."""
        self.enforced = True

    def note_suspended(self, suspended: bool) -> None:
        """Record whether the controller has stopped the job's processes."""
        self.suspended = suspended

    def note_tree(self, tree: list[int], starts: Mapping[int, int] | None = None) -> bool:
        """Set the pids of the job's processes; return whether they have changed.

        Args:
            tree: The pids.
            starts: Start times by pid, of these and maybe others; None if unknown.
        """
        if changed := tree != self.tree:
            self.tree = tree
        if starts is not None:
            self.starts = starts
        return changed

    def note_stopped(self, stopped: bool) -> bool:
        """Record whether the job was stopped from elsewhere; return whether that has changed."""
        before, self.stopped = self.stopped, stopped
        if stopped:
            self.actual = frozenset()
        return stopped != before

    def note_diverged(self, diverged: bool) -> None:
        """Record whether the container's state differs from the last command."""
        self.diverged = diverged

    def note_decision(self) -> None:
        """Record the knowledge that a decision is based on."""
        if self.speed is not self.known.speed:
            self.known = policy_input.Known(self.speed, self.rates)
        self.last_level = self.level

    def report(self, pid: int, steps_done: float, steps_total: float | None, now: float) -> None:
        """Record the progress, unless another process of the job already reports."""
        if self.reporter not in self.agents:
            self.reporter = pid
        if self.reporter == pid:
            self.speed = self.speed.report(steps_done, steps_total, now)
            self.phases.report(steps_done, time_accounts.run_seconds(self.record, now))

    def note_elastic(self, pid: int, elastic: Elastic) -> None:
        """Record the state of the elastic training, if `pid` is the process whose steps count."""
        if self.reporter in (None, pid):
            self.elastic = elastic

    def note_usage(self, cpu_seconds: float, runnable: float, now: float) -> None:
        """Record the CPU time so far, and the number of recently runnable threads."""
        self.usage.add(cpu_seconds, runnable, now)
        self.phases.sample(cpu_seconds, time_accounts.run_seconds(self.record, now))

    def cancel(self, now: float) -> None:
        """Record that the job was cancelled; schedule SIGKILL in 10 seconds."""
        self.record = replace(self.record, cancelled=True)
        self.kill_at = now + _CANCEL_SECONDS

    def end(self) -> None:
        """Record that the job has ended, and end its streams."""
        self.over = True
        self.streams.wake()

    # Queries.

    def processes(self, pids: Iterable[int] | None = None) -> list[ProcessId]:
        """Return the job's processes, or those of them that have one of these pids."""
        if self.record.process is None:
            return []
        wanted = self.tree if pids is None else pids
        boot = self.record.process.boot
        return [ProcessId(pid, self.starts[pid], boot) for pid in wanted if pid in self.starts]

    @property
    def is_inactive(self) -> bool:
        """Whether the job's processes are stopped, or were told to end."""
        return self.suspended or self.stopped or self.record.cancelled

    def is_barred(self, now: float) -> bool:
        """Return whether the job must not have cores, whatever the policy decides."""
        return self.record.held or self.is_out_of_reach(now)

    def is_out_of_reach(self, now: float) -> bool:
        """Return whether the job could not use cores, even if no person has paused it."""
        return self.record.cancelled or self.stopped or self.is_absent(now)

    def is_absent(self, now: float) -> bool:
        """Return whether the job waits for cores, but no process is connected to start it."""
        here = self.container is not None or bool(self.agents) or now < self.expected_until
        return self.record.state == "waiting" and not here

    @property
    def lends_all(self) -> bool:
        """Whether the job has lent all its CPUs, so that it has none of its own."""
        return bool(self.record.grant.lent) and not self.record.grant.cpus

    @property
    def used_cpus(self) -> float | None:
        """CPUs kept busy recently; None while unknown or not running."""
        return self.usage.used if self.record.state == "running" else None

    @property
    def level(self) -> int:
        """CPUs wanted, in tenths, or FULL."""
        if self.record.state != "running":
            return FULL
        # A job that lends all its CPUs must be noticed when it wants any of them.
        return self.usage.level(len(self.record.grant.cpus) or len(self.record.grant.lent))

    def is_overdue(self, now: float) -> bool:
        """Return whether the job has reached its time limit and is not cancelled yet."""
        limit = self.record.time_limit
        if limit is None or self.record.cancelled:
            return False
        return time_accounts.run_seconds(self.record, now) >= limit

    @property
    def has_news(self) -> bool:
        """Whether current knowledge may lead to a different decision than the last one."""
        return self.level != self.last_level or self.known.is_outdated_by(self.speed, self.lessons)

    @property
    def expected_seconds(self) -> float | None:
        """Expected run time in seconds, from the user or else earlier runs; None if unknown."""
        return policy_input.expected_seconds(self.record, self.lessons)

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Recently measured speeds, completed with those of earlier jobs."""
        return policy_input.rates_of(self.speed, self.lessons)

    def as_job(self, now: float) -> Job:
        """Return the job as a policy sees it."""
        if self.record.state == "running":
            return self._as_job(now)
        # Cached: jobs in a long queue do not change from one decision to the next.
        if (idle := self._idle) is not None:
            record, speed, lessons, job = idle
            if record is self.record and speed is self.speed and lessons is self.lessons:
                return job
        job = self._as_job(now)
        self._idle = self.record, self.speed, self.lessons, job
        return job

    def _as_job(self, now: float) -> Job:
        wanted = self.usage.wanted if self.record.state == "running" else None
        return policy_input.job_of(self.record, self.speed, self.lessons, wanted, now)
