# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Live job: its record, and the state that does not outlive the controller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tf_malleable.api.schema.services.request_latency import RequestReport
from tf_malleable.controller.jobs.grant_delivery import GrantDelivery
from tf_malleable.controller.jobs.job_measurements import JobMeasurements
from tf_malleable.controller.jobs.job_processes import JobProcesses
from tf_malleable.controller.ports import Container
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.cgroups.memory_cgroup import MemoryGroup
from tf_malleable.linux.processes.pidfds import ProcessExit
from tf_malleable.model import Cpuset, Grant, Job, ProcessId
from tf_malleable.model.need import Lack
from tf_malleable.scheduling.decision import policy_input
from tf_malleable.scheduling.records import time_accounts
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Lessons
from tf_malleable.scheduling.records.speeds import Speedometer
from tf_malleable.scheduling.records.usage import FULL

# Time within which a submitted program must open its grant stream.
_CONNECT_SECONDS = 5.0
# Time between SIGTERM to the main process and SIGKILL to all processes of a cancelled job.
_CANCEL_SECONDS = 10.0
# Part of it after which SIGTERM goes to all processes: a shell with a trap does not pass it on
# while it waits for a program.
_ALONE_SHARE = 0.5


@dataclass
class LiveJob:
    """A live job. Only its own methods and those of its parts change it.

    Times are Unix times in seconds.

    Attributes:
        record: The part of the state that is also kept on disk.
        measured: Measurements of the job.
        processes: Processes of the job, and their cgroups.
        delivery: Delivery of the current grant.
        expected_until: Time until which a waiting program need not be connected.
        suspended: True if the controller has stopped the job's processes.
        stopped: True if the job's processes were stopped, but not by the controller.
        told: Processes that were sent SIGTERM since the job was cancelled.
        tell_all_at: Time at which to send it to all others, too; None for never.
        kill_at: Time at which to end the job by force; None for never.
        over: True if the job has ended.
        container: Controls the job's container; None for processes of the host.
        diverged: True if the container's state differs from the last command.
        lack: Resource other than cores that the job waits for; None if none.
        outside: True while the time window in which the job may run is closed.
    """

    record: Record
    measured: JobMeasurements
    processes: JobProcesses = field(default_factory=JobProcesses)
    delivery: GrantDelivery = field(default_factory=GrantDelivery)
    expected_until: float = 0.0
    suspended: bool = False
    stopped: bool = False
    told: set[ProcessId] = field(default_factory=set)
    tell_all_at: float | None = None
    kill_at: float | None = None
    over: bool = False
    container: Container | None = None
    diverged: bool = False
    lack: Lack | None = None
    outside: bool = False
    _idle: tuple[Record, Speedometer, Lessons, Job] | None = None

    # Mutators; nothing else assigns to its attributes.

    def expect(self, now: float) -> None:
        """Let the job wait in the queue although no process has connected yet."""
        self.expected_until = now + _CONNECT_SECONDS

    def attach_process(self, process: ProcessId, pidfd: int) -> None:
        """Set the main process and take ownership of the pidfd."""
        self.record = replace(self.record, process=process)
        self.processes.attach(process, pidfd)

    def attach_container(self, container: Container) -> None:
        """Set the container that the grants go to."""
        self.container = container

    def attach_group(self, group: JobGroup | None) -> None:
        """Set the cgroup that contains all processes of the job."""
        self.processes.attach_group(group)
        self.record = replace(self.record, cgroup=None if group is None else str(group.folder))

    def attach_memory(self, group: MemoryGroup) -> None:
        """Set the cgroup in which the memory is limited."""
        self.processes.attach_memory(group)
        self.record = replace(self.record, memory_cgroup=str(group.folder))

    def note_exit(self, how: ProcessExit | None) -> None:
        """Record how the main process has ended; None if unknown."""
        if how is not None:
            self.record = replace(self.record, exit_code=how.code, signal=how.signal)

    def note_main_end(self, now: float, how: ProcessExit | None) -> None:
        """Record that the main process has ended; the job may last."""
        self.note_exit(how)
        self.record = replace(self.record, main_ended=now)

    def note_leftovers(self, leftovers: Iterable[ProcessId]) -> None:
        """Record the processes that have outlived the main process, for a job without a cgroup."""
        self.record = replace(self.record, leftovers=tuple(leftovers))

    def note_lack(self, lack: Lack | None) -> None:
        """Record the resource other than cores that the job waits for; None for none."""
        self.lack = lack

    def note_outside(self, outside: bool) -> bool:
        """Record whether the job's time window is closed; return whether that has changed."""
        before, self.outside = self.outside, outside
        return outside != before

    def amend(self, record: Record) -> None:
        """Replace the record."""
        self.record = record

    def take(self, grant: Grant, now: float) -> Record:
        """Accept a new grant, to be carried out; return the previous record."""
        before = self.record
        self.record = time_accounts.granted(before, grant, now)
        if not grant.cpus <= before.grant.cpus:
            # The usage of the old CPUs says nothing about the new ones.
            self.measured.usage.forget()
        if len(grant.cpus) != len(before.grant.cpus):
            self.measured.latencies.note_change(len(grant.cpus), now)
        if not self.lends_all:
            self.measured.queueing.forget()
        if not grant:
            self.measured.note_cores(0, now)
        self.delivery.publish(grant)
        return before

    def settle(self, now: float) -> float | None:
        """Mark the grant as actual if every agent has acknowledged it.

        For a container, the kernel must also confirm it. Without agents, it must have been
        enforced from outside.

        Returns:
            Seconds since the grant was published, the first time; otherwise None.
        """
        record = self.record
        if record.state != "running" or self.stopped:
            return None
        in_container = self.container is not None
        is_actual, seconds = self.delivery.settle(
            record.grant, record.serial, by_kernel=in_container
        )
        if is_actual:
            self.measured.note_cores(len(self.delivery.actual), now)
        return seconds

    def note_suspended(self, suspended: bool) -> None:
        """Record whether the controller has stopped the job's processes."""
        self.suspended = suspended

    def note_stopped(self, stopped: bool) -> bool:
        """Record whether the job was stopped from elsewhere; return whether that has changed."""
        before, self.stopped = self.stopped, stopped
        if stopped:
            self.delivery.note_stopped()
        return stopped != before

    def note_allowed(self, allowed: Cpuset, now: float) -> None:
        """Record the CPUs that the job's processes may use, whoever has confined them."""
        if self.delivery.note_allowed(self.record.grant.cpus, allowed):
            self.measured.note_cores(len(self.delivery.in_use), now)

    def note_diverged(self, diverged: bool) -> None:
        """Record whether the container's state differs from the last command."""
        self.diverged = diverged

    def note_decision(self) -> None:
        """Record the knowledge that a decision is based on."""
        self.measured.note_decision(self.level)

    def report(self, pid: int, steps_done: float, steps_total: float | None, now: float) -> None:
        """Record the progress, unless another process of the job already reports."""
        if self._is_reporter(pid):
            self.measured.note_steps(steps_done, steps_total, now, self._run_seconds(now))

    def report_regions(self, pid: int, regions: float, now: float) -> None:
        """Record the parallel regions, unless another process of the job already reports."""
        if self._is_reporter(pid):
            self.measured.note_regions(regions, now)

    def _is_reporter(self, pid: int) -> bool:
        if self.measured.reporter not in self.delivery.agents:
            self.measured.note_reporter(pid)
        return self.measured.reporter == pid

    def note_requests(self, pid: int, report: RequestReport, now: float) -> bool:
        """Record the requests that a process has served; return whether it may need more cores."""
        self.measured.latencies.keep({pid, *self.delivery.agents})
        return self.measured.latencies.add(pid, report, self.record.slo, now)

    def note_usage(self, cpu_seconds: float, runnable: float, now: float) -> None:
        """Record the CPU time so far, and the number of recently runnable threads."""
        self.measured.note_usage(cpu_seconds, runnable, now, self._run_seconds(now))

    def cancel(self, now: float) -> None:
        """Record that the job was cancelled; schedule SIGKILL in 10 seconds."""
        self.record = replace(self.record, cancelled=True)
        self.tell_all_at = now + _ALONE_SHARE * _CANCEL_SECONDS
        self.kill_at = now + _CANCEL_SECONDS

    def note_overdue(self) -> None:
        """Record that the job has reached its time limit."""
        self.record = replace(self.record, overdue=True)

    def note_unmet(self, job: str) -> None:
        """Record that a job did not succeed that this one was to start only after."""
        self.record = replace(self.record, unmet=job)

    def note_told(self, processes: Iterable[ProcessId]) -> None:
        """Record that processes of the cancelled job were sent SIGTERM."""
        self.told.update(processes)

    def note_all_told(self) -> None:
        """Record that all processes of the cancelled job were sent SIGTERM."""
        self.tell_all_at = None

    def end(self) -> None:
        """Record that the job has ended, and end its streams."""
        self.over = True
        self.delivery.streams.wake()

    # Queries.

    @property
    def is_inactive(self) -> bool:
        """Whether the job's processes are stopped, or were told to end."""
        return self.suspended or self.stopped or self.record.cancelled

    def is_barred(self, now: float) -> bool:
        """Return whether the job must not have cores, whatever the policy decides."""
        return self.record.held or self.is_out_of_reach(now)

    def is_out_of_reach(self, now: float) -> bool:
        """Return whether the job could not use cores, even if no person has paused it."""
        return self.record.cancelled or self.stopped or self.outside or self.is_absent(now)

    def is_absent(self, now: float) -> bool:
        """Return whether the job waits for cores, but no process is connected to start it."""
        here = self.container is not None or bool(self.delivery.agents) or now < self.expected_until
        return self.record.state == "waiting" and not here

    @property
    def lends_all(self) -> bool:
        """Whether the job has lent all its CPUs, so that it has none of its own."""
        return bool(self.record.grant.lent) and not self.record.grant.cpus

    @property
    def used_cpus(self) -> float | None:
        """CPUs kept busy recently; None while unknown or not running."""
        return self.measured.usage.used if self.record.state == "running" else None

    @property
    def level(self) -> int:
        """CPUs wanted, in tenths, or FULL."""
        if self.record.state != "running":
            return FULL
        # A job that lends all its CPUs must be noticed when it wants any of them.
        return self.measured.usage.level(len(self.record.grant.cpus) or len(self.record.grant.lent))

    def is_overdue(self, now: float) -> bool:
        """Return whether the job has reached its time limit and is not cancelled yet."""
        limit = self.record.time_limit
        if limit is None or self.record.cancelled:
            return False
        return self._run_seconds(now) >= limit

    @property
    def has_news(self) -> bool:
        """Whether current knowledge may lead to a different decision than the last one."""
        return self.measured.has_news(self.level)

    @property
    def expected_seconds(self) -> float | None:
        """Expected run time in seconds, from the user or else earlier runs; None if unknown."""
        return policy_input.expected_seconds(self.record, self.measured.lessons)

    def as_job(self, now: float) -> Job:
        """Return the job as a policy sees it."""
        if self.record.state == "running":
            return self._as_job(now)
        # Cached: jobs in a long queue do not change from one decision to the next.
        if (idle := self._idle) is not None:
            record, speed, lessons, job = idle
            known = self.measured
            if record is self.record and speed is known.speed and lessons is known.lessons:
                return job
        job = self._as_job(now)
        self._idle = self.record, self.measured.speed, self.measured.lessons, job
        return job

    def _as_job(self, now: float) -> Job:
        wanted = self.measured.usage.wanted if self.record.state == "running" else None
        known = self.measured
        slo = self.record.slo
        load = None if slo is None else known.latencies.load(slo, now)
        elastic = known.elastic is not None
        return policy_input.job_of(
            self.record, known.speed, known.lessons, wanted, now, load, elastic=elastic
        )

    def _run_seconds(self, now: float) -> float:
        return time_accounts.run_seconds(self.record, now)
