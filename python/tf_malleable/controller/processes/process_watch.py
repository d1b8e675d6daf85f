# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Watch: inspects the jobs through the kernel, with their processes, usage and compliance."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from tf_malleable.controller.clock import until_next
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.ports import Look
from tf_malleable.controller.processes import enforcement, processes
from tf_malleable.controller.processes.loaded_libraries import LoadedLibraries
from tf_malleable.controller.processes.meters import CpuMeter, MemoryMeter
from tf_malleable.linux.processes import affinity, procfs
from tf_malleable.linux.processes.priority import unpinned_cpus
from tf_malleable.linux.processes.process_table import ProcessTable
from tf_malleable.scheduling.records.usage import FULL, SAMPLE_SECONDS

_SAMPLES_PER_SURVEY = 10
_SAMPLES_PER_MEMORY = 5
# As long as all running jobs compute, every other sample is left out: a job that falls asleep is
# noticed a tenth of a second later, and then inspected in each sample.
_STEP_IF_STEADY = 2
# Jobs whose threads are inspected one by one in a sample; each takes 0.5 ms.
_LOOKS_PER_SAMPLE = 4
# The same for jobs that lend all their CPUs. If there are more, each is inspected at least every
# _LENDERS_EVERY samples: a lender reclaims its CPUs within half a second of waking up.
_LENDERS_PER_SAMPLE = 4
_LENDERS_EVERY = 3
# Jobs with more processes than this are not inspected thread by thread.
_FEW_PROCESSES = 50
# A survey of thousands of processes pauses to let the loop do other work.
_SLICE_SECONDS = 0.002
_GAP_SECONDS = 0.005
_CONFINED_AT_ONCE = 20
# A grant that the agent has not carried out within this time is enforced from outside: a
# borrower may not respond while its lender waits.
_PATIENCE_SECONDS = 0.1
# Part of its cores' time below which a job that wants more is starved.
_STARVED = 0.5
# A grant that is not actual after this time cannot be carried out.
_LATE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Watch:
    """Inspects the jobs up to ten times a second. Not thread-safe: one asyncio loop."""

    def __init__(
        self,
        jobs: Mapping[str, LiveJob],
        now: Callable[[], float],
        *,
        request_decision: Callable[[], None],
        on_settled: Callable[[LiveJob], None],
        on_overdue: Callable[[LiveJob], None],
        on_starved: Callable[[LiveJob], None],
        look_after_mainless: Callable[[], None],
    ) -> None:
        """Create a watch; it does nothing until start().

        Args:
            jobs: Live jobs by id, as a live view.
            now: Returns Unix time on the clock of all records, in seconds.
            request_decision: Called after a change that affects a decision.
            on_settled: Called when a grant was carried out from outside.
            on_overdue: Called when a job has reached its time limit.
            on_starved: Called when a job has less than half of its cores' time, but wants it.
            look_after_mainless: Called often, to end jobs whose last process has ended.
        """
        self._jobs = jobs
        self._now = now
        self._request_decision = request_decision
        self._on_settled = on_settled
        self._on_overdue = on_overdue
        self._on_starved = on_starved
        self._look_after_mainless = look_after_mainless
        self._looks = 0
        self._samples_since_memory = 0
        self._meter = CpuMeter()
        self._memory = MemoryMeter()
        self._libraries = LoadedLibraries()
        self._samples_since_survey = 0
        self._step = 1
        self._timer: asyncio.TimerHandle | None = None
        self._surveying: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start watching."""
        self._look_later()

    def stop(self) -> None:
        """Stop watching."""
        for each in (self._timer, self._surveying):
            if each is not None:
                each.cancel()

    def _look_later(self) -> None:
        self._step = _STEP_IF_STEADY if self._is_steady() else 1
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(until_next(self._step * SAMPLE_SECONDS), self._look)

    def _is_steady(self) -> bool:
        return all(map(_is_steady, self._jobs.values()))

    def hasten(self) -> None:
        """Take the next sample without delay, as there are new grants."""
        if self._step > 1 and self._timer is not None:
            self._timer.cancel()
            self._step = 1
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(until_next(SAMPLE_SECONDS), self._look)

    def _look(self) -> None:
        self._timer = None
        self._samples_since_survey += self._step
        if self._samples_since_survey >= _SAMPLES_PER_SURVEY:
            self._samples_since_survey = 0
            self._surveying = asyncio.get_running_loop().create_task(self._survey_and_sample())
            return
        self._sample_safely()
        self._look_later()

    async def _survey_and_sample(self) -> None:
        try:
            await self._survey_in_slices()
            await self._libraries.look(self._surveyed(), self._now())
        except Exception:
            _log.exception("cannot inspect the jobs' processes")
        else:
            self._sample_safely()
        self._look_later()

    def _sample_safely(self) -> None:
        try:
            self._sample()
        except Exception:
            _log.exception("cannot inspect the jobs' processes")

    def survey(self) -> None:
        """Read all processes: find those that belong to a job, and those that are stopped."""
        table = ProcessTable.now() if self._needs_table() else ProcessTable()
        for live, new in self._noting(table, {}):
            enforcement.confine_agentless(live, new)
        self._follow_up()

    async def _survey_in_slices(self) -> None:
        """Do the same as survey() without blocking the loop for more than a few milliseconds."""
        table = ProcessTable()
        begin = time.monotonic()

        async def rest() -> None:
            nonlocal begin
            if time.monotonic() - begin > _SLICE_SECONDS:
                await asyncio.sleep(_GAP_SECONDS)
                begin = time.monotonic()

        if self._needs_table():
            for _ in table.filling():
                await rest()
        # Recording thousands of processes takes a slice of its own, and so does finding them.
        members: dict[str, list[int]] = {}
        for live in self._surveyed():
            if len(live.processes.tree) <= _FEW_PROCESSES or live.record.process is None:
                continue
            if live.processes.group is not None:
                members[live.record.id] = await asyncio.to_thread(live.processes.group.pids)
            elif live.record.main_ended is None:
                members[live.record.id] = table.tree(live.record.process.pid)
            await asyncio.sleep(_GAP_SECONDS)
        for live, new in tuple(self._noting(table, members)):
            await rest()
            for first in range(0, len(new), _CONFINED_AT_ONCE):
                if live.over:
                    break
                enforcement.confine_agentless(live, new[first : first + _CONFINED_AT_ONCE])
                await rest()
        self._follow_up()

    def _surveyed(self) -> list[LiveJob]:
        return [
            live
            for live in self._jobs.values()
            if live.record.state != "waiting" and live.container is None and live.record.process
        ]

    def _needs_table(self) -> bool:
        return any(live.processes.group is None for live in self._surveyed())

    def _noting(
        self, table: ProcessTable, members: Mapping[str, list[int]]
    ) -> Iterator[tuple[LiveJob, list[int]]]:
        """Record each job's processes; yield the jobs that have changed and their new pids."""
        for live in self._surveyed():
            assert live.record.process is not None
            process = live.record.process
            is_read = table.starts.get(process.pid) == process.start
            if live.processes.group is None and live.record.main_ended is None and not is_read:
                continue  # The job has joined since the table was begun, or has ended.
            known = live.processes.tree
            if not processes.note(live, table, members.get(live.record.id)):
                continue
            before = set(known)
            new = [pid for pid in live.processes.tree if pid not in before]
            if live.suspended and new:
                # They were forked before their parent stopped.
                processes.stop_all(live)
            if live.processes.group is None:
                live.measured.usage.forget()
            # A child inherits its parent's CPUs as of its creation; these may be outdated.
            yield live, new

    def _follow_up(self) -> None:
        """Do the periodic work of a survey: stops, kills, time limits, diverged containers."""
        now = self._now()
        changed = False
        for live in self._surveyed():
            changed = self._note_stop(live) or changed
            self._note_allowed(live, now)
        for live in self._jobs.values():
            if live.tell_all_at is not None and now >= live.tell_all_at:
                enforcement.terminate_rest(live)
            if live.kill_at is not None and now >= live.kill_at:
                enforcement.kill(live)
            if live.is_overdue(now):
                self._on_overdue(live)
            if live.container is not None and live.diverged:
                self._enforce_again(live)
        self._meter.forget_others(set(self._jobs))
        if changed or any(live.is_absent(now) for live in self._jobs.values()):
            self._request_decision()

    @staticmethod
    def _note_allowed(live: LiveJob, now: float) -> None:
        """Record which CPUs a running job may use, as others may have confined it, too."""
        delivery, cpus = live.delivery, live.record.grant.cpus
        if live.record.state != "running" or live.is_inactive or not cpus:
            return
        if delivery.published is not None and time.monotonic() - delivery.published < _LATE_SECONDS:
            return  # The job is about to be confined otherwise.
        # A program's launcher computes nothing. Of a splitter's, each has only a part.
        computing = delivery.agents if delivery.agents and not delivery.splitters else None
        pids = live.processes.tree if computing is None else computing
        # CPUs that the controller may not use itself do not show whether a job was confined.
        shown = cpus & unpinned_cpus()
        allowed = affinity.allowed([*pids][:_FEW_PROCESSES], shown)
        if shown and allowed:
            live.note_allowed(allowed | (cpus - shown), now)

    @staticmethod
    def _enforce_again(live: LiveJob) -> None:
        """Restore the wanted state of a container that was changed from elsewhere."""
        if live.suspended:
            enforcement.suspend(live)
        elif live.record.state == "running":
            enforcement.enforce(live)

    @staticmethod
    def _note_stop(live: LiveJob) -> bool:
        """Record whether a job was stopped from elsewhere; return whether that has changed."""
        asleep = processes.are_stopped(live)
        if live.suspended and not asleep:
            processes.stop_all(live)
        return live.note_stopped(asleep and not live.suspended)

    def _sample(self) -> None:
        """Measure the usage of running jobs, and enforce overdue grants."""
        now, clock = self._now(), time.monotonic()
        self._look_after_mainless()
        self._looks = 0
        running = [live for live in self._jobs.values() if live.record.state == "running"]
        self._look_at_lenders(running, now)
        self._samples_since_memory += self._step
        if self._samples_since_memory >= _SAMPLES_PER_MEMORY:
            self._samples_since_memory = 0
            self._memory.look(self._jobs)
        news = False
        for live in self._jobs.values():
            seen = None
            if live.container is not None:
                seen, changed = self.look_at(live)
                news = news or changed
            if live.record.state != "running":
                continue
            cpu_seconds = self._cpu_seconds(live, seen)
            if cpu_seconds is not None:
                runnable = self._runnable(live)
                live.note_usage(cpu_seconds, runnable, now)
                used, cores = live.used_cpus, len(live.record.grant.cpus)
                if used is not None and used < _STARVED * cores and runnable >= cores:
                    self._on_starved(live)
            news = news or live.has_news
            late = (
                live.delivery.published is not None
                and clock - live.delivery.published > _PATIENCE_SECONDS
            )
            if late and not live.delivery.enforced and live.container is None:
                enforcement.enforce(live)
                self._on_settled(live)
        if news:
            self._request_decision()

    def _look_at_lenders(self, running: Iterable[LiveJob], now: float) -> None:
        """Measure how the threads of some jobs that lend all their CPUs queue for CPUs."""
        lenders = [live for live in running if live.lends_all]
        if not lenders:
            return
        lenders.sort(key=lambda live: live.measured.queueing.looked_at or 0.0)
        turns = max(_LENDERS_PER_SAMPLE, -(-len(lenders) // _LENDERS_EVERY))
        for live in lenders[:turns]:
            live.measured.queueing.look(procfs.queued(live.processes.tree), now)

    def look_at(self, live: LiveJob) -> tuple[Look | None, bool]:
        """Read the cgroup of a job that is a container.

        Returns:
            State of the container, None if unknown; and whether a decision is needed.
        """
        process = live.record.process
        look = live.container.look(process.pid) if live.container and process else None
        if look is None:
            return None, False
        live.processes.note_tree(list(look.pids))
        live.note_diverged(not look.in_force and not look.stopped)
        is_new = live.note_stopped(look.stopped)
        running = live.record.state == "running" and not live.stopped
        if running and look.in_force and not live.delivery.enforced:
            live.delivery.note_enforced()
            self._on_settled(live)
        return look, is_new

    def _cpu_seconds(self, live: LiveJob, look: Look | None) -> float | None:
        """Return the CPU time a job has used, in seconds; None if unknown."""
        if look is not None:
            return look.cpu_seconds
        if live.container is not None:
            return None
        return self._meter.cpu_seconds(live, len(self._jobs))

    def _runnable(self, live: LiveJob) -> float:
        """Return the number of runnable threads if the job seems to use less than it has.

        On a shared host, a job may lack CPU time without being idle. Inspecting every thread
        is too expensive for all jobs; 0 or the number of cores is returned instead. A job that
        lends all its CPUs shares them with borrowers, so the CPUs that it waited for count.
        """
        if live.lends_all:
            return live.measured.queueing.cpus
        used, cores = live.used_cpus, len(live.record.grant.cpus)
        if live.record.grant.lent or used is None or used > cores - 0.5:
            return 0
        self._looks += 1
        few = self._looks <= _LOOKS_PER_SAMPLE and len(live.processes.tree) <= _FEW_PROCESSES
        return procfs.runnable(live.processes.tree) if few else cores


def _is_steady(live: LiveJob) -> bool:
    """Return whether a job does not run, or keeps all its CPUs busy and has settled."""
    if live.container is not None:
        return False
    if live.record.state != "running":
        return True
    is_known = live.measured.usage.wanted is not None and live.delivery.published is None
    return is_known and live.level == FULL and not live.record.grant.lent
