# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reactor: asks the policy for the decision loop, carries out the changes, and saves them.

Everything runs in one asyncio loop, so there are no locks, and nothing here ever waits for a job.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace

from tf_malleable.controller.clock import Clock, until_next
from tf_malleable.controller.jobs.instruments import Instruments
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.jobs.provision import Needs, Provision
from tf_malleable.controller.ports import Containers
from tf_malleable.controller.processes import enforcement
from tf_malleable.controller.processes.cpu_weights import CpuWeights
from tf_malleable.controller.processes.enforcement import Enforcer
from tf_malleable.controller.processes.process_watch import Watch
from tf_malleable.controller.scheduler.job_table import Roster
from tf_malleable.controller.state.store import CPUS, Store
from tf_malleable.model import Allocation, Grant, Machine, format_cpuset
from tf_malleable.model.quota import NO_QUOTAS, Quotas
from tf_malleable.policies import registry
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.wrappers.budget import keeping
from tf_malleable.scheduling.decision import admission_order
from tf_malleable.scheduling.decision.admission_order import Starts
from tf_malleable.scheduling.decision.decision import Candidate, Change
from tf_malleable.scheduling.decision.decision_loop import DecisionLoop
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.limit_schedule import is_outside, scheduled

_POLICY = "policy"

# Delay after which changes are saved, once the jobs have been notified: a write to a file
# system may block.
_SAVE_SECONDS = 0.02
# Interval of the search for spans that have outlived their retention, and the time between two
# steps if there are many.
_TIDY_SECONDS = 60.0
_TIDY_STEP_SECONDS = 1.0
# Also the longest time for which a clock that jumps is not noticed.
_WINDOW_SECONDS = 1.0

_log = logging.getLogger(__name__)


class _AsyncioTimers:
    """Timers of a decision loop on the clock of all records."""

    def __init__(self, clock: Clock) -> None:
        self._clock, self.now = clock, clock.now

    def soon(self, call: Callable[[], None]) -> asyncio.Handle:
        return asyncio.get_running_loop().call_soon(call)

    def at(self, when: float, call: Callable[[], None]) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(when - self._clock.now(), call)


class Reactor:
    """Makes decisions and carries them out. Not thread-safe: one asyncio loop.

    Attributes:
        instruments: Metrics for Prometheus.
        machine: CPUs shared out.
        roster: Live jobs.
        policy: Name and options of the policy in force.
        provision: Resources shared out other than cores.
        problem: Reason why the default policy decides instead of the chosen one; None if it
            does not.
        react: Makes a decision now and carries out what changes.
        react_soon: Schedules one decision for all events of this iteration of the loop.
        limited: Returns a machine with its power limits, for a decision; None for no limits.
        wall: Returns Unix time in seconds on the clock that people see, which may jump. Time
            windows follow it.
    """

    limited: Callable[[Machine], Machine] | None = None

    def __init__(
        self,
        machine: Machine,
        policy: str | None,
        store: Store,
        containers: Containers | None = None,
        quotas: Quotas = NO_QUOTAS,
        provision: Provision | None = None,
    ) -> None:
        self.provision = provision or Provision()
        # Unix time at which a job last had to wait for others to end, by id.
        self._waited_for: dict[str, float] = {}
        # Jobs that are held back although the policy would start them.
        self._held_back: frozenset[str] = frozenset()
        self.instruments = Instruments()
        self._quotas = quotas
        self.machine = machine
        self.policy = policy or store.setting(_POLICY) or registry.DEFAULT
        self._fallback = registry.create(registry.DEFAULT)
        # Reason why the policy last used cannot be used; None once another one is chosen.
        self._unusable: str | None = None
        try:
            self._chosen = registry.create(self.policy)
        except ValueError as error:
            if policy:
                raise
            self._unusable = (
                f"the last policy, {self.policy}, cannot be used, {registry.DEFAULT} decides"
                f" instead: {error}"
            )
            _log.warning("%s", self._unusable)
            self.policy, self._chosen = registry.DEFAULT, self._fallback
        self.problem: str | None = self._unusable
        self._store = store
        self._clock = Clock()
        self._loop = DecisionLoop(_AsyncioTimers(self._clock), self)
        self.react, self.react_soon = self._loop.react, self._loop.request
        self._saving: asyncio.TimerHandle | None = None
        self._has_saved = asyncio.Event()
        self.wall: Callable[[], float] = time.time
        self._tidying: asyncio.Task[None] | None = None
        self._following_windows: asyncio.Task[None] | None = None
        self._sweeping: asyncio.Task[None] | None = None
        self.roster = Roster(
            store,
            self._clock,
            self.instruments,
            containers,
            request_decision=self.react_soon,
            look_at=lambda live: self._watch.look_at(live),
        )
        self._enforcer = Enforcer(self.roster.live, store, self._clock, self.instruments)
        self._watch = Watch(
            self.roster.live,
            self.now,
            request_decision=self.react_soon,
            on_settled=self._enforcer.settle,
            on_overdue=self._end_overdue,
            on_starved=self._enforcer.spare,
            look_after_mainless=self.roster.look_after_mainless,
        )
        self.instruments.cpus.set(len(machine.cpus))

    def weigh(self, weights: CpuWeights) -> None:
        """Give the jobs weights of their CPU time; before start()."""
        self.roster.weights = self._enforcer.weights = weights

    def now(self) -> float:
        """Return Unix time on the clock of all records, in seconds."""
        return self._clock.now()

    async def start(self) -> None:
        """Adopt the running jobs of an earlier controller, and start.

        Raises:
            OSError: There are no free descriptors for these jobs.
        """
        if self._unusable is None:
            self._store.set_setting(_POLICY, self.policy)
        self._store.set_setting(CPUS, format_cpuset(self.machine.cpuset))
        self.roster.load()
        self._watch.survey()
        for live in self.roster.live.values():
            if live.record.state == "running":
                enforcement.enforce(live)
                self._enforcer.settle(live)
        self._watch.start()
        self._sweeping = asyncio.create_task(self.roster.remove_orphaned_cgroups())
        self._tidying = asyncio.create_task(self._tidy_for_ever())
        self._following_windows = asyncio.create_task(self._follow_windows_for_ever())
        self.react()

    async def close(self) -> None:
        """Release all jobs; suspended ones continue, as without a controller."""
        self._watch.stop()
        self._loop.close()
        tasks = (self._tidying, self._following_windows, self._sweeping)
        for handle in (self._saving, *tasks):
            if handle is not None:
                handle.cancel()
        self._watch.survey()
        self.roster.close()
        self.save()

    def share_out(self, machine: Machine) -> None:
        """Share out the CPUs of this machine from now on."""
        if machine == self.machine:
            return
        self.machine = machine
        self.instruments.cpus.set(len(machine.cpus))
        self._store.set_setting(CPUS, format_cpuset(machine.cpuset))
        _log.warning("the CPUs shared out are now %s", format_cpuset(machine.cpuset) or "none")
        self.react()

    def choose(self, policy: str) -> None:
        """Switch to another policy.

        Raises:
            ValueError: Unknown policy or invalid option.
        """
        self._chosen = registry.create(policy)
        self.policy = policy
        self._unusable = None
        self._store.set_setting(_POLICY, policy)
        _log.info("the policy is now %s", policy)
        self.react()

    def amend(self, live: LiveJob, record: Record) -> None:
        """Replace a job's record after a user's request."""
        record = scheduled(record, self.wall())
        if record != live.record:
            live.amend(record)
            self._store.save(record)
            self.react()

    def cancel(self, live: LiveJob) -> None:
        """End a job: SIGTERM, first to its main process, and SIGKILL after 10 seconds."""
        if not live.record.cancelled:
            live.cancel(self.now())
            self._store.save(live.record)
            # Save first: a controller that takes over must terminate it, or kill it if necessary.
            self.save()
            enforcement.terminate(live)

    def _end_overdue(self, live: LiveJob) -> None:
        _log.warning("%s: ended, it has reached its time limit", live.record.title)
        live.note_overdue()
        self.cancel(live)

    def acknowledge(self, live: LiveJob, pid: int, serial: int) -> None:
        """Record that a process of a job has carried out a grant."""
        live.delivery.acknowledge(pid, serial)
        self._enforcer.settle(live)

    def connect(self, live: LiveJob, pid: int, *, splits: bool = False) -> None:
        """Record that an agent has connected."""
        was_absent = live.is_absent(self.now())
        live.delivery.connect(pid, splits=splits)
        if was_absent:
            self.react_soon()

    def disconnect(self, live: LiveJob, pid: int) -> None:
        """Record that an agent has disconnected; enforce the grant if no agent is left."""
        if live.delivery.disconnect(pid, live.record.serial):
            enforcement.enforce(live)
        self._enforcer.settle(live)
        if live.is_absent(self.now()):
            self.react_soon()

    # Effects of the decision loop.

    def grants(self) -> tuple[Mapping[str, Grant], Collection[str]]:
        """Return the current grants, and the jobs that run without one; see Effects."""
        live = self.roster.live
        current = {job: each.record.grant for job, each in live.items()}
        still_running = [
            job
            for job, each in live.items()
            if each.record.state != "waiting" and not each.record.grant and not each.is_inactive
        ]
        return current, still_running

    def carry_out(self, found: Sequence[Change], now: float) -> None:
        """Carry out changes, and save them shortly after; see Effects."""
        self.provision.hand_out(found, self.roster.live)
        self._enforcer.apply(found, now)
        if found:
            self._watch.hasten()
        self.save_soon()

    def save_soon(self) -> None:
        """Schedule saving of the changes, if any, after a short delay."""
        if self._saving is None and self._store.is_dirty:
            loop = asyncio.get_running_loop()
            self._saving = loop.call_later(_SAVE_SECONDS, self.save)

    def save(self) -> None:
        """Save all changes; if that fails, they stay queued."""
        if self._saving is not None:
            self._saving.cancel()
            self._saving = None
        try:
            self._store.flush()
        finally:
            self._has_saved.set()
            self._has_saved = asyncio.Event()

    async def _tidy_for_ever(self) -> None:
        while True:
            more = self._store.tidy(self.now())
            await asyncio.sleep(_TIDY_STEP_SECONDS if more else _TIDY_SECONDS)

    async def _follow_windows_for_ever(self) -> None:
        while True:
            await asyncio.sleep(until_next(_WINDOW_SECONDS))
            if self._follow_windows():
                self.react_soon()

    def _follow_windows(self) -> bool:
        """Put the limits of this time in force; return whether that changes anything."""
        changed, at = False, self.wall()
        for live in self.roster.live.values():
            record = live.record
            if record.window is not None:
                changed |= live.note_outside(is_outside(record, at))
            if record.schedule and (found := scheduled(record, at)) != record:
                live.amend(found)
                self._store.save(found)
                _log.info("%s: its limits are now those of this time of day", record.title)
                changed = True
        return changed

    async def saved(self) -> None:
        """Return once all changes so far are saved, or saving them has failed."""
        self.save_soon()
        if self._saving is not None:
            await self._has_saved.wait()

    def candidates(self, now: float) -> list[Candidate]:
        """Return all live jobs as a decision sees them, in order of arrival."""
        held_back = self.roster.held_back()
        live = self.roster.live
        for job in [*self._waited_for]:
            if job not in live:
                del self._waited_for[job]
        found = []
        for job, each in live.items():
            blocked = job in held_back or self.roster.is_blocked(each)
            if blocked or each.outside:
                self._waited_for[job] = now
            seen = each.as_job(now)
            if job in self._waited_for:
                # The job has been waiting for cores only since then.
                seen = replace(seen, submitted=max(seen.submitted, self._waited_for[job]))
            found.append(Candidate(seen, each.record.by_hand, each.is_barred(now) or blocked))
        return found

    def foresee(
        self, candidates: Sequence[Candidate], now: float, policy: Policy | None = None
    ) -> Allocation:
        """Return the allocation that would be decided; nothing is carried out.

        Args:
            candidates: Jobs to decide about.
            now: Unix time in seconds.
            policy: Policy that decides; None for the one in force.

        Raises:
            Exception: Whatever the policy raises.
        """
        return self._share_out(policy or self._chosen, candidates, now).allocation

    def decide(self, now: float) -> Allocation:
        """Return the allocation of all live jobs; see Effects."""
        self._follow_windows()
        candidates = self.candidates(now)
        for live in self.roster.live.values():
            live.note_decision()
        begin = time.perf_counter()
        try:
            allocation = self._ask(self._chosen, candidates, now)
            self.problem = self._unusable
        except Exception as error:
            self.instruments.problems.inc()
            problem = (
                f"policy {self.policy} failed, {registry.DEFAULT} decides instead:"
                f" {type(error).__name__}: {error}"
            )
            if problem != self.problem:
                _log.exception("%s", problem)
            self.problem = problem
            allocation = self._ask(self._fallback, candidates, now)
        self.instruments.decisions.observe(time.perf_counter() - begin)
        return allocation

    def _ask(self, policy: Policy, candidates: Sequence[Candidate], now: float) -> Allocation:
        """Return a policy's allocation to the jobs for which all other resources suffice."""
        live = self.roster.live
        found = self._share_out(policy, candidates, now)
        for job in self._held_back | found.lacks.keys():
            if job in live:
                live[job].note_lack(found.lacks.get(job))
        self._held_back = frozenset(found.lacks)
        return found.allocation

    def _share_out(self, policy: Policy, candidates: Sequence[Candidate], now: float) -> Starts:
        live = self.roster.live
        supply = self.provision.supply(live.values())
        need = Needs(live, now).of
        machine = self.machine if self.limited is None else self.limited(self.machine)
        if machine.power is not None or machine.areas:
            policy = keeping(policy)
        weights = self.roster.weights
        has_services = any(candidate.job.load is not None for candidate in candidates)
        if has_services and weights is not None and weights.are_for(live):
            machine = replace(machine, preempts=True)
        return admission_order.decide(policy, candidates, need, supply, machine, now, self._quotas)
