# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Roster of the live jobs: adds them, finds them, and records their ends."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from tf_malleable.api.schema.history import JobRecord, Outcome
from tf_malleable.controller.clock import Clock
from tf_malleable.controller.jobs.instruments import Instruments
from tf_malleable.controller.jobs.job_measurements import JobMeasurements
from tf_malleable.controller.jobs.job_views import why_not_over
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.ports import Containers
from tf_malleable.controller.processes import enforcement, processes
from tf_malleable.controller.processes.cgroup_removal import Emptying, Group
from tf_malleable.controller.processes.cpu_weights import CpuWeights
from tf_malleable.controller.processes.leftovers import Leftovers
from tf_malleable.controller.state.exit_file import RecordedExit, read_exit, recorded_exits
from tf_malleable.controller.state.store import Store
from tf_malleable.linux.cgroups import (
    cgroup,
    container_cgroup,
    cpu_cgroup,
    job_cgroup,
    memory_cgroup,
)
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.processes import pidfds, process_marker, procfs
from tf_malleable.linux.processes.pidfds import ProcessExit
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import ProcessId
from tf_malleable.scheduling.records import job_arrays, metrics, time_accounts
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import passed_on
from tf_malleable.scheduling.records.metrics import NOT_MEASURED, Measurements
from tf_malleable.scheduling.records.phases import Phases

# Longest delay with which an engine reports the exit code of a container.
_ENGINE_SECONDS = 0.5
# Number of containers that ended last of which the engine may still report why.
_ENDED_LATELY = 100
# Jobs without a main process that are checked in a call, each in about 0.02 ms.
_CHECKED_AT_ONCE = 50

# Time in which a keeper records an exit.
_KEEPER_SECONDS = 2.0
_KEEPER_POLL_SECONDS = 0.05
# Of a job that others may start after only if it succeeds. If nobody knows that, it is none.
_UNSUCCESSFUL: Final = ("failed", "cancelled", "unknown")

_log = logging.getLogger(__name__)


class Roster:
    """Roster of the live jobs. Not thread-safe: one asyncio loop.

    Attributes:
        live: Live jobs by id, in order of arrival.
        ended: Number of jobs that have ended so far.
        exempt: Lets the processes of a new job use more CPUs than processes that are no jobs; None
            if these are not limited.
        weights: Weights of the jobs' CPU time; None if jobs have none.
    """

    exempt: Callable[[ProcessId], None] | None = None
    weights: CpuWeights | None = None

    def __init__(
        self,
        store: Store,
        clock: Clock,
        instruments: Instruments,
        containers: Containers | None,
        *,
        request_decision: Callable[[], None],
        look_at: Callable[[LiveJob], object],
    ) -> None:
        """Create an empty roster.

        Args:
            store: Keeps records and history.
            clock: Clock of all records.
            instruments: Counts ended jobs.
            containers: Containers of an engine; None without containers.
            request_decision: Called when a job has ended.
            look_at: Called when a container may have reached its wanted state.
        """
        self.live: dict[str, LiveJob] = {}
        self.ended = 0
        self._store = store
        self._clock = clock
        self._instruments = instruments
        self._containers = containers
        self._request_decision = request_decision
        self._look_at = look_at
        self._by_pid: dict[int, LiveJob] = {}
        # By pid and start time of the main process, which may have ended; and those of these
        # whose main process has ended, by id.
        self._by_main: dict[tuple[int, int], LiveJob] = {}
        self._mainless: dict[str, LiveJob] = {}
        # Searches for processes that have outlived the main process of a job, by its id.
        self._searches: dict[str, asyncio.Task[None]] = {}
        self._by_container: dict[str, LiveJob] = {}
        # Containers that ended while no controller ran; the engine may know their exit codes.
        self._missed: dict[str, Record] = {}
        # What keepers have recorded of jobs that ended while no controller ran, by id.
        self._exits: Mapping[str, RecordedExit] = {}
        self._emptying = Emptying()
        # Searches for the exits of ended jobs whose success others need, by id.
        self._undecided: dict[str, asyncio.Task[None]] = {}
        # Ends that the engine has not reported yet, by container.
        self._lately: dict[str, JobRecord] = {}

    def load(self) -> None:
        """Adopt the running jobs of an earlier controller.

        Raises:
            OSError: There are no free descriptors for these jobs.
        """
        records = self._store.load()
        self._exits = recorded_exits(filter(_may_have_ended_unseen, records))
        for record in records:
            self._adopt(record)
        for live in [*self.live.values()]:
            if (job := self.unmet(live.record)) is not None:
                self._cancel_unmet(live, job)

    async def remove_orphaned_cgroups(self) -> None:
        """Remove the cgroups of jobs of which no record is left, once they have no processes."""
        # Reading thousands of folders takes tens of milliseconds.
        for main, group in await asyncio.to_thread(job_cgroup.made_by_this_user):
            if main not in self._by_main:
                self.remove_when_empty(group)

    def _adopt(self, record: Record) -> None:
        pidfd = None
        if record.process is not None and record.main_ended is None:
            pidfd = pidfds.open_pidfd(record.process)
        is_waiting = record.container is not None and record.process is None
        out_of_reach = record.container is not None and self._containers is None
        has_ended = pidfd is None and not is_waiting
        if has_ended and record.container is not None and not out_of_reach:
            self._missed[record.container.id] = record
            return
        # The state file does not contain the phases of the job so far.
        phases = Phases(whole=record.started is None)
        if not has_ended and not out_of_reach:
            self._go_on(self.add(record, pidfd, phases))
            return
        if pidfd is not None:
            os.close(pidfd)
        leftovers = Leftovers() if record.container is not None else Leftovers.found(record)
        if leftovers.processes and not (_ends_with_main(record) or record.cancelled):
            self._go_on(self._add_mainless(record, leftovers, phases))
        else:
            self._kill_missed(record, leftovers)

    def _add_mainless(self, record: Record, leftovers: Leftovers, phases: Phases) -> LiveJob:
        """Add a job whose main process has ended, maybe while no controller ran."""
        main = record.process
        assert main is not None
        if (recorded := self._exits.get(record.id)) is not None:
            at = min(max(recorded.at, record.since), self._clock.now())
            record = replace(record, main_ended=at, exit_code=recorded.code, signal=recorded.signal)
        elif record.main_ended is None:
            record = replace(record, main_ended=self._clock.now())
        live = self.add(record, None, phases)
        live.attach_group(leftovers.group)
        live.processes.attach_leftovers(leftovers.processes)
        if leftovers.group is not None:
            _limit_memory(live, leftovers.processes[0])
        if self.weights is not None and leftovers.processes:
            self.weights.attach(live, leftovers.processes[0])
        self._note_main(live, main)
        self._mainless[record.id] = live
        self._store.save(live.record)
        return live

    def _go_on(self, live: LiveJob) -> None:
        """Restore the state of an adopted job that the kernel keeps."""
        record = live.record
        if live.processes.group is not None:
            # The previous controller may have been killed while the cgroup was frozen.
            live.processes.group.thaw()
        if record.cancelled:
            live.cancel(self._clock.now())
            if live.container is None:
                # The previous controller may have been killed before it sent the signal.
                enforcement.terminate(live)
            return
        if record.state != "paused":
            return
        if live.container is not None:
            enforcement.suspend(live)
        else:
            live.note_suspended(processes.are_stopped(live))

    def _kill_missed(self, record: Record, leftovers: Leftovers) -> None:
        """Kill what is left of a job that ended while no controller ran, and record its end."""
        pids = [each.pid for each in leftovers.processes]
        killed = replace(
            NOT_MEASURED,
            out_of_memory=leftovers.lacked_memory,
            killed=len(pids),
            killed_commands=processes.commands(pids),
        )
        leftovers.kill()
        if leftovers.group is not None:
            self.remove_when_empty(leftovers.group)
        at = None
        if record.exit_code is None and (recorded := self._exits.get(record.id)) is not None:
            record = replace(record, exit_code=recorded.code, signal=recorded.signal)
            at = None if pids else recorded.at
        self._record_missed(record, record.exit_code, killed, at)

    def remove_when_empty(self, group: Group) -> None:
        """Remove a cgroup once it has no processes, which is polled."""
        self._emptying.add(group)

    def remove_unless_job(self, process: ProcessId, group: JobGroup) -> None:
        """Remove what prepare_group() has made, once empty, unless its process becomes a job."""
        self.remove_when_empty(group)
        weighed = cpu_cgroup.made_before(process, group)
        if weighed is not None:
            self.remove_when_empty(weighed)

    def add(
        self,
        record: Record,
        pidfd: int | None,
        phases: Phases | None = None,
        group: JobGroup | None = None,
    ) -> LiveJob:
        """Add a job and take ownership of its pidfd.

        Args:
            record: Record of the job.
            pidfd: Pidfd of the main process; None if there is none yet.
            phases: Phases of the job so far; None for a new job.
            group: Cgroup that was made for the main process; None if there is none.
        """
        lessons = self._store.knowledge.lessons(record)
        live = LiveJob(record, JobMeasurements(lessons, phases=phases or Phases()))
        self.live[record.id] = live
        if record.container is not None:
            self._by_container[record.container.id] = live
            assert self._containers is not None
            live.attach_container(
                self._containers.container(record.container, lambda: self._has_changed(live))
            )
        if record.process is not None and pidfd is not None:
            self.attach_process(live, record.process, pidfd, group)
        return live

    def attach_process(
        self, live: LiveJob, process: ProcessId, pidfd: int, group: JobGroup | None = None
    ) -> None:
        """Set a job's main process and take ownership of its pidfd; see add()."""
        live.attach_process(process, pidfd)
        if live.record.container is None:
            if group is None or process.pid not in group.pids():
                self._exempt(process)
                group = job_cgroup.make(process)
            live.attach_group(group)
            if group is not None:
                # The cgroup was made before its job, and so was scheduled for removal.
                self._emptying.keep(group)
            _limit_memory(live, process)
            weighed = None if self.weights is None else self.weights.attach(live, process)
            if weighed is not None:
                self._emptying.keep(weighed)
        else:
            found = container_cgroup.cgroup_of(live.record.container.id, process)
            live.processes.attach_container(found)
        self._store.save(live.record)
        self._by_pid[process.pid] = live
        self._note_main(live, process)
        asyncio.get_running_loop().add_reader(pidfd, self._process_ended, live)
        # A grant must not thaw a container that was frozen by others.
        self._look_at(live)

    def prepare_group(self, process: ProcessId) -> JobGroup | None:
        """Make the cgroup of a job ahead of add(), in a thread; None if there can be none."""
        self._exempt(process)
        return job_cgroup.make(process) if self.weights is None else self.weights.make(process)

    def _exempt(self, process: ProcessId) -> None:
        if self.exempt is not None:  # First, as the cgroup is made below that of the process.
            self.exempt(process)

    def _note_main(self, live: LiveJob, process: ProcessId) -> None:
        self._by_main[process.pid, process.start] = live

    def _has_changed(self, live: LiveJob) -> None:
        if not live.over:
            self._look_at(live)

    def in_container(self, container: str) -> LiveJob | None:
        """Return the job of the container with this id; None if there is none."""
        return self._by_container.get(container)

    def job_of(self, pid: int) -> LiveJob | None:
        """Return the job that a process belongs to, as main process or descendant."""
        for ancestor in procfs.ancestors(pid):
            live = self._by_pid.get(ancestor)
            if live is not None and live.record.process and procfs.is_alive(live.record.process):
                return live
        # A descendant whose parent has ended. Its pid is checked, as a user may have made a
        # cgroup of that name.
        main = job_cgroup.main_of(pid)
        live = None if main is None else self._by_main.get(main)
        if (
            live is not None
            and live.processes.group is not None
            and pid in live.processes.group.pids()
        ):
            return live
        if live := self._without_cgroup(pid):
            return live
        # A process of a container that was started from outside, as by `docker exec`.
        for live in self._named_containers(pid):
            if live.processes.container is not None and live.processes.container.has(pid):
                return live
        return None

    def unknown_container_of(self, pid: int) -> str | None:
        """Return the id of the container that a process seems to be the first one of.

        Only containers count whose job has cores, but whose first process has not been reported.
        None if there is none.
        """
        for live in self._named_containers(pid):
            record = live.record
            if record.container and record.process is None and record.state == "running":
                return record.container.id
        return None

    def _named_containers(self, pid: int) -> list[LiveJob]:
        """Return the containers that the cgroups of a process are named after, rightly or not."""
        if not self._by_container:
            return []
        found = map(self._by_container.get, cgroup.container_ids(pid))
        return [live for live in found if live is not None]

    def _without_cgroup(self, pid: int) -> LiveJob | None:
        """Return the job without a cgroup that a process belongs to, though not as descendant."""
        main = process_marker.named_main(pid)
        live = None if main is None else self._by_main.get(main)
        if live is not None and live.processes.group is None:
            # Every user can name any process.
            return live if process_marker.real_uid(pid) == live.record.uid else None
        orphaned = [each for each in self._mainless.values() if each.processes.group is None]
        for ancestor in procfs.ancestors(pid) if orphaned else ():
            for live in orphaned:
                if ancestor in live.processes.tree and processes.present(live, [ancestor]):
                    return live
        return None

    def before(self, live: LiveJob) -> list[LiveJob]:
        """Return the live jobs that must end before this one starts."""
        record = live.record
        if not (record.after or record.after_ok) or record.state != "waiting":
            return []
        jobs = dict.fromkeys((*record.after, *record.after_ok))
        return [self.live[job] for job in jobs if job in self.live]

    def is_blocked(self, live: LiveJob) -> bool:
        """Return whether other jobs must end before this one starts, or their ends be known."""
        if self.before(live):
            return True
        if not live.record.after_ok or not (self._missed or self._undecided):
            return False
        unknown = {*self._undecided, *(each.id for each in self._missed.values())}
        return not unknown.isdisjoint(live.record.after_ok)

    def unmet(self, record: Record) -> str | None:
        """Return a job that has not succeeded and that a waiting one needs; None if there is none.

        Raises:
            StoreError: The history cannot be read.
        """
        if record.state != "waiting" or record.cancelled:
            return None
        here = self.live.keys() | self._undecided.keys()
        ended = (job for job in record.after_ok if job not in here)
        return next((job for job in ended if self._store.outcome(job) in _UNSUCCESSFUL), None)

    def is_known(self, job: str) -> bool:
        """Return whether there is or was a job with this id.

        Raises:
            StoreError: The history cannot be read.
        """
        is_present = job in self.live or any(job == each.id for each in self._missed.values())
        return is_present or self._store.outcome(job) is not None

    def held_back(self) -> frozenset[str]:
        """Return the ids of the waiting jobs whose arrays may not start them yet."""
        return job_arrays.held_back(live.record for live in self.live.values())

    @property
    def missed(self) -> frozenset[str]:
        """Ids of containers that ended while no controller ran."""
        return frozenset(self._missed)

    def record_missed_exit(
        self, container: str, code: int | None, *, out_of_memory: bool = False
    ) -> None:
        """Record the end of a container of `missed`.

        Args:
            container: Id of the container.
            code: Exit code; None if unknown.
            out_of_memory: Whether a process of it was killed for lack of memory.
        """
        record = self._missed.pop(container, None)
        if record is not None:
            self._record_missed(record, code, replace(NOT_MEASURED, out_of_memory=out_of_memory))
            self._request_decision()

    def note_out_of_memory(self, container: str) -> None:
        """Record that a process of a container that has just ended was killed for lack of memory.

        The kernel reports the end before the engine does, and the cores do not wait for that.
        """
        ended = self._lately.pop(container, None)
        if ended is not None and ended.outcome in ("failed", "unknown"):
            self._store.amend_ended(msgspec.structs.replace(ended, cause="out-of-memory"))
            _log.info("job %s (%s): it was out of memory", ended.id, ended.name)
            self._request_decision()  # After which it is written to the file.

    def _record_missed(
        self,
        record: Record,
        code: int | None,
        measured: Measurements = NOT_MEASURED,
        at: float | None = None,
    ) -> None:
        """Record the end of a job that no controller has seen.

        Args:
            record: Record of the job.
            code: Exit code, as in a shell; None if unknown.
            measured: Measurements of the job.
            at: Unix time of the end; None if unknown: it counts as ended now.
        """
        now = self._clock.now()
        at = now if at is None else min(max(at, record.since), now)
        self._store.add_span(time_accounts.span(record, at))
        record = time_accounts.up_to(record, at)
        outcome: Outcome = "cancelled" if record.cancelled else _outcome(code)
        if outcome == "unknown" and _is_of_earlier_boot(record):
            outcome = "interrupted"
        self._record_end(record, at, outcome, code, measured)

    def _process_ended(self, live: LiveJob) -> None:
        assert live.record.process is not None
        assert live.processes.pidfd is not None
        how = pidfds.process_exit(live.record.process, live.processes.pidfd)
        if live.container is None:
            self._main_ended(live, how)
        elif how is not None:
            live.note_exit(how)
            self.end(live, how.code)
        else:
            # The kernel is too old to report the exit code, but the engine soon will.
            loop = asyncio.get_running_loop()
            loop.remove_reader(live.processes.pidfd)
            loop.call_later(_ENGINE_SECONDS, self._end_after_all, live)

    def _main_ended(self, live: LiveJob, how: ProcessExit | None) -> None:
        """End a job whose main process has ended, once it has no other processes."""
        self._close_pidfd(live)
        live.note_main_end(self._clock.now(), how)
        self._forget_pid(live)
        self._mainless[live.record.id] = live
        if live.processes.group is None:
            self._search(live)
        else:
            self._end_or_last(live)

    def _end_or_last(self, live: LiveJob) -> None:
        """Decide what becomes of the processes that a main process has just left."""
        if _ends_with_main(live.record) or not processes.remain(live):
            self.end(live, live.record.exit_code)
            return
        processes.refresh(live)
        _log.info("%s: %s", live.record.title, why_not_over(live))
        if live.record.cancelled:
            enforcement.terminate_rest(live)
        self._store.save(live.record)
        self._request_decision()  # After which it is written to the file.

    def look_after_mainless(self) -> None:
        """End the jobs whose main process has ended if no other process is left.

        If there are many of these jobs, some are checked in each call.
        """
        for job in [*self._mainless][:_CHECKED_AT_ONCE]:
            live = self._mainless[job] = self._mainless.pop(job)  # As the last one.
            if job in self._searches:
                continue
            if not processes.remain(live):
                if live.processes.group is None:
                    self._search(live)
                else:
                    self.end(live, live.record.exit_code)
                continue
            if live.processes.group is None:
                self._save_leftovers(live)

    def _save_leftovers(self, live: LiveJob) -> None:
        before = live.record.leftovers
        live.note_leftovers(live.processes.identities(live.record.process))
        if live.record.leftovers != before:
            self._store.save(live.record)
            self._request_decision()  # After which it is written to the file.

    def _search(self, live: LiveJob) -> None:
        """Find processes of a job without a cgroup that no survey has seen."""
        job = live.record.id
        self._searches[job] = asyncio.get_running_loop().create_task(self._find(live))
        self._searches[job].add_done_callback(lambda _: self._searches.pop(job, None))

    async def _find(self, live: LiveJob) -> None:
        assert live.record.process is not None
        main, uid = live.record.process, live.record.uid
        # Reading thousands of processes takes tens of milliseconds.
        found = await asyncio.to_thread(process_marker.marked, main, uid)
        if live.over:
            return
        known = {*live.processes.tree}
        live.processes.attach_leftovers(found)
        new = [each.pid for each in found if each.pid not in known]
        if live.suspended and new:
            processes.stop_all(live)
        enforcement.confine_agentless(live, new)
        self._end_or_last(live)

    def _end_after_all(self, live: LiveJob) -> None:
        if not live.over:
            self.end(live, None)

    def end(self, live: LiveJob, code: int | None, *, out_of_memory: bool = False) -> None:
        """Record that a job has ended.

        Args:
            live: The job.
            code: Exit code as in a shell; None if unknown.
            out_of_memory: Whether a container's engine says that a process of it was killed for
                lack of memory.
        """
        now = self._clock.now()
        self._store.add_span(time_accounts.span(live.record, now))
        was_cancelled = live.record.cancelled or live.record.started is None
        outcome: Outcome = "cancelled" if was_cancelled else _outcome(code)
        record = time_accounts.up_to(live.record, now)
        course = live.measured.phases.course(record.run_seconds)
        kept = (
            course,
            live.measured.elastic,
            live.measured.usage.reading,
            live.measured.latencies.at_end(),
        )
        left = [] if record.container is not None else processes.remaining(live)
        measured = Measurements(
            live.measured.usage.cpu_seconds,
            live.measured.speed,
            live.measured.peak_mem,
            *kept,
            out_of_memory or processes.lacked_memory(live),
            len(left),
            processes.commands(left),
        )
        self._record_end(record, now, outcome, code, measured)
        if live.record.container is None:
            if left:
                processes.kill_all(live)
            if live.processes.group is not None:
                self.remove_when_empty(live.processes.group)
            if live.processes.memory_group is not None:
                self.remove_when_empty(live.processes.memory_group)
        self._unweigh(live)
        self._drop(live)
        finished = outcome == "finished"
        self._store.knowledge.learn(
            record,
            live.measured.speed.rates,
            live.measured.peak_mem,
            course.first_step_seconds,
            finished=finished,
        )
        self._teach(record)
        self._request_decision()

    def _teach(self, ended: Record) -> None:
        """Pass on the knowledge from an ended job to similar live jobs."""
        known = self._store.knowledge.lessons(ended)
        for live in self.live.values():
            live.measured.learn(passed_on(known, ended, live.record, live.measured.lessons))

    def _record_end(
        self,
        record: Record,
        at: float,
        outcome: Outcome,
        code: int | None,
        measured: Measurements = NOT_MEASURED,
    ) -> None:
        user = user_name(record.uid)
        account = None if record.account is None else user_name(record.account)
        ended = metrics.ended(record, at, outcome, code, measured, user=user, account=account)
        self._store.end(record.id, ended)
        if record.container is not None:
            self._lately[record.container.id] = ended
            if len(self._lately) > _ENDED_LATELY:
                del self._lately[next(iter(self._lately))]
        needing = any(record.id in live.record.after_ok for live in self.live.values())
        if outcome == "unknown" and ended.output is not None and needing:
            task = asyncio.get_running_loop().create_task(self._ask_keeper(ended))
            self._undecided[record.id] = task
        elif outcome in _UNSUCCESSFUL:
            self._cancel_needing(record.id)
        self.ended += 1
        self._instruments.ended.labels(outcome).inc()
        how = "" if ended.cause is None else f" ({ended.cause})"
        how += "" if code is None else f", exit code {code}"
        _log.info("%s: %s%s", record.title, outcome, how)
        if measured.killed:
            which, more = ", ".join(measured.killed_commands), measured.killed
            more -= len(measured.killed_commands)
            which += f" and {more} more" if more else ""
            _log.warning(
                "%s: killed what its main process has left behind: %s", record.title, which
            )

    async def _ask_keeper(self, ended: JobRecord) -> None:
        """Find out whether a job has succeeded, from its keeper, as old kernels do not tell."""
        assert ended.output is not None
        deadline = self._clock.now() + _KEEPER_SECONDS
        recorded = None
        while recorded is None and self._clock.now() < deadline:
            reading = asyncio.to_thread(
                read_exit, Path(ended.output), ended.user, ended.id, ended.submitted
            )
            # A user's file system need not answer.
            with suppress(asyncio.TimeoutError):
                recorded = await asyncio.wait_for(reading, _KEEPER_SECONDS)
            if recorded is None:
                await asyncio.sleep(_KEEPER_POLL_SECONDS)
        del self._undecided[ended.id]
        if recorded is not None:
            outcome = _outcome(recorded.code)
            self._store.amend_ended(
                msgspec.structs.replace(ended, outcome=outcome, exit_code=recorded.code)
            )
        if recorded is None or recorded.code:
            self._cancel_needing(ended.id)
        self._request_decision()

    def _cancel_needing(self, job: str) -> None:
        """Cancel the waiting jobs that need the success of a job."""
        for live in [*self.live.values()]:
            if job in live.record.after_ok and not live.record.cancelled:
                self._cancel_unmet(live, job)

    def _cancel_unmet(self, live: LiveJob, job: str) -> None:
        """Cancel a waiting job, as one that it needs has not succeeded."""
        if live.record.state != "waiting":
            return
        self.note_unmet(live, job)
        # First: a controller that takes over must not take its end for a failure of its own.
        self._store.flush()
        enforcement.terminate(live)

    def note_unmet(self, live: LiveJob, job: str) -> None:
        """Have a waiting job end by itself, or be killed: one that it needs did not succeed."""
        live.note_unmet(job)
        live.cancel(self._clock.now())
        self._store.save(live.record)

    def refuse(self, live: LiveJob) -> None:
        """Remove a job as if it had never been added."""
        if live.processes.memory_group is not None:
            live.processes.memory_group.lift()
            self.remove_when_empty(live.processes.memory_group)
        if live.processes.group is not None:
            self.remove_when_empty(live.processes.group)
        self._unweigh(live)
        self._store.forget(live.record.id)
        self._drop(live)

    def _unweigh(self, live: LiveJob) -> None:
        group = None if self.weights is None else self.weights.drop(live)
        if group is not None:
            self.remove_when_empty(group)

    def _drop(self, live: LiveJob) -> None:
        del self.live[live.record.id]
        self._mainless.pop(live.record.id, None)
        self._forget_pid(live)
        if (main := live.record.process) is not None:
            self._by_main.pop((main.pid, main.start), None)
        if live.record.container is not None:
            del self._by_container[live.record.container.id]
        self._close_pidfd(live)
        if live.container is not None:
            live.container.release()
        live.end()

    def _forget_pid(self, live: LiveJob) -> None:
        main = live.record.process
        # Another main process may have got the pid.
        if main is not None and self._by_pid.get(main.pid) is live:
            del self._by_pid[main.pid]

    @staticmethod
    def _close_pidfd(live: LiveJob) -> None:
        pidfd = live.processes.detach_main()
        if pidfd is not None:
            asyncio.get_running_loop().remove_reader(pidfd)
            os.close(pidfd)

    def close(self) -> None:
        """Release all jobs; suspended ones continue, as without a controller."""
        self._emptying.close()
        for search in (*self._searches.values(), *self._undecided.values()):
            search.cancel()
        for live in tuple(self.live.values()):
            if live.suspended:
                enforcement.resume(live)
            if self.weights is not None:
                self.weights.drop(live)
            now = self._clock.now()
            self._store.add_span(time_accounts.span(live.record, now))
            self._store.save(time_accounts.up_to(live.record, now))
            self._drop(live)


def _limit_memory(live: LiveJob, process: ProcessId) -> None:
    """Limit a job to its requested memory, if its cgroup supports that."""
    if live.record.mem is None or live.processes.group is None:
        return
    group = memory_cgroup.make(process, live.processes.group)
    if group is not None:
        live.attach_memory(group)
        if not group.limit(live.record.mem):
            _log.warning("%s: its memory cannot be limited", live.record.title)


def _may_have_ended_unseen(record: Record) -> bool:
    """Return whether the main process of a job has ended, and its exit code is unknown."""
    if record.process is None or record.exit_code is not None:
        return False
    return record.main_ended is not None or not procfs.is_alive(record.process)


def _is_of_earlier_boot(record: Record) -> bool:
    """Return whether the host was rebooted since the main process of a job started."""
    return record.process is not None and record.process.boot != procfs.boot_id()


def _ends_with_main(record: Record) -> bool:
    """Return whether a job ends with its main process, so that its other processes are killed."""
    return record.kill_leftovers or record.started is None


def _outcome(code: int | None) -> Outcome:
    if code is None:
        return "unknown"
    return "failed" if code else "finished"
