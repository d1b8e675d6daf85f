# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What happens to the jobs, what is decided, and how that is carried out.

Everything that happens ends in one reaction: ask the policy, compare its answer
with the grants there are, carry out the differences, save them a moment later. All
of it runs in one asyncio loop, so there are no locks; nothing here ever waits for a
job.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time

from tf_malleable.controller import accounts, hands, metrics, processes
from tf_malleable.controller.decision import Candidate, decide
from tf_malleable.controller.live import Live
from tf_malleable.controller.messages import Outcome
from tf_malleable.controller.prometheus import Instruments
from tf_malleable.controller.record import Record
from tf_malleable.controller.store import CPUS, Store
from tf_malleable.controller.watch import SAMPLE_SECONDS, Watch
from tf_malleable.model import NO_GRANT, Allocation, Grant, Machine, format_cpuset
from tf_malleable.policies import registry

_POLICY = "policy"

# Jobs are told first, and what a reaction has changed is saved so much later: a file
# system may keep whoever writes waiting.
_SAVE_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Reactor:
    """The live jobs and their grants. Not thread-safe: one asyncio loop.

    Attributes:
        instruments: Counters for a monitoring system.
        machine: What is shared out.
        live: The jobs, by id, in order of arrival.
        policy: The name, with options, of the policy in force.
        problem: Why another policy had to decide in its place, last time.
    """

    def __init__(self, machine: Machine, policy: str | None, store: Store) -> None:
        self.instruments = Instruments()
        self.machine = machine
        self.live: dict[str, Live] = {}
        self.policy = policy or store.setting(_POLICY) or registry.DEFAULT
        self.problem: str | None = None
        self._chosen = registry.create(self.policy)
        self._fallback = registry.create(registry.DEFAULT)
        self._store = store
        self._by_pid: dict[int, Live] = {}
        # Unix time that never jumps.
        self._epoch = time.time() - time.monotonic()
        self._reaction: asyncio.Handle | None = None
        self._review: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._watch = Watch(self.live, self.now, self.react_soon)
        self.instruments.cpus.set(len(machine.cpus))

    def now(self) -> float:
        """Return the time of all records, in seconds."""
        return self._epoch + time.monotonic()

    async def start(self) -> None:
        """Take up the jobs of an earlier controller that still run, and begin."""
        self._store.set_setting(_POLICY, self.policy)
        self._store.set_setting(CPUS, format_cpuset(self.machine.cpuset))
        for record in self._store.load():
            self._adopt(record)
        self._watch.survey()
        for live in self.live.values():
            if live.record.state == "running":
                hands.enforce(live)
                self.note_actual(live)
        self._watch.start()
        self.react()

    async def close(self) -> None:
        """Let go of all jobs: those that are paused go on, as without a controller."""
        self._watch.stop()
        for handle in (self._reaction, self._review, self._saving):
            if handle is not None:
                handle.cancel()
        self._watch.survey()
        for live in self.live.values():
            if live.suspended:
                hands.resume(live)
            self._store.save(accounts.up_to(live.record, self.now()))
            self._forget(live)
        self.live.clear()
        self._by_pid.clear()
        self._store.flush()

    def _adopt(self, record: Record) -> None:
        pidfd = processes.open_pidfd(record.process)
        if pidfd is None:
            at = self.now()
            self._record_end(accounts.up_to(record, at), at, "unknown", None, None, None)
            return
        live = self.add(record, pidfd)
        stat = processes.read_stat(record.process.pid)
        live.suspended = record.state == "paused" and stat is not None and stat.state == "T"

    def add(self, record: Record, pidfd: int) -> Live:
        """Take up a job; its pidfd is the reactor's from now on."""
        pid = record.process.pid
        live = Live(record, pidfd, self._store.speeds(record.name), [pid])
        self.live[record.id] = self._by_pid[pid] = live
        asyncio.get_running_loop().add_reader(pidfd, self._process_ended, live)
        return live

    def drop(self, live: Live) -> None:
        """Forget a job, as if it had never been there."""
        del self.live[live.record.id], self._by_pid[live.record.process.pid]
        self._forget(live)

    def _forget(self, live: Live) -> None:
        asyncio.get_running_loop().remove_reader(live.pidfd)
        os.close(live.pidfd)
        live.over = True
        live.wake_streams()

    def job_of(self, pid: int) -> Live | None:
        """Return the job a process is part of, as main process or descendant."""
        for ancestor in processes.ancestors(pid):
            live = self._by_pid.get(ancestor)
            if live is not None and processes.is_alive(live.record.process):
                return live
        return None

    def choose(self, policy: str) -> None:
        """Use another policy from now on.

        Raises:
            ValueError: There is no such policy.
        """
        self._chosen = registry.create(policy)
        self.policy = policy
        self._store.set_setting(_POLICY, policy)
        self.react()

    def amend(self, live: Live, record: Record) -> None:
        """Take note of what a person said about a job."""
        if record != live.record:
            live.record = record
            self._store.save(record)
            self.react()

    # Reactions.

    def react_soon(self) -> None:
        """React once to all that happens in this turn of the loop."""
        if self._reaction is None:
            self._reaction = asyncio.get_running_loop().call_soon(self.react)

    def react(self) -> None:
        """Decide anew, and carry out what has changed."""
        if self._reaction is not None:
            self._reaction.cancel()
            self._reaction = None
        now = self.now()
        allocation = self._decide(now)
        self._carry_out(allocation, now)
        if self._saving is None:
            self._saving = asyncio.create_task(self._save_later())
        self._update_gauges()
        if self._review is not None:
            self._review.cancel()
            self._review = None
        if allocation.review_at is not None:
            delay = max(SAMPLE_SECONDS, allocation.review_at - now)
            self._review = asyncio.get_running_loop().call_later(delay, self.react)

    async def _save_later(self) -> None:
        await asyncio.sleep(_SAVE_SECONDS)
        if self._saving is asyncio.current_task():
            self.save()

    def save(self) -> None:
        """Save all that has changed, as far as that can be."""
        self._saving = None
        self._store.flush()

    async def saved(self) -> None:
        """Return once all that reactions have changed so far is saved, or cannot be."""
        if self._saving is not None:
            await asyncio.shield(self._saving)

    def _decide(self, now: float) -> Allocation:
        candidates = [
            Candidate(live.as_job(now), live.record.by_hand, live.is_held(now))
            for live in self.live.values()
        ]
        for live in self.live.values():
            if live.record.state == "running":
                live.last_level = live.level
        begin = time.perf_counter()
        try:
            allocation = decide(self._chosen, candidates, self.machine, now)
            self.problem = None
        except Exception as error:
            self.instruments.problems.inc()
            problem = (
                f"policy {self.policy} failed and {registry.DEFAULT} decides in its place:"
                f" {type(error).__name__}: {error}"
            )
            if problem != self.problem:
                _log.exception("%s", problem)
            self.problem = problem
            allocation = decide(self._fallback, candidates, self.machine, now)
        self.instruments.decisions.observe(time.perf_counter() - begin)
        return allocation

    def _carry_out(self, allocation: Allocation, now: float) -> None:
        changes = []
        for live in self.live.values():
            grant = allocation.grants.get(live.record.id, NO_GRANT)
            if grant != live.record.grant or (
                not grant and live.record.state == "paused" and not self._is_silent(live)
            ):
                changes.append((live, grant))
        if not changes:
            return
        # Those that lose CPUs first, so that the others find them free.
        changes.sort(key=lambda change: len(change[1].cpus - change[0].record.grant.cpus))
        stopping = [live for live, grant in changes if not grant]
        if stopping:
            # None of its processes may be missed. Else the last survey will do: to
            # look at all processes of a host takes milliseconds.
            trees = processes.trees(live.record.process.pid for live in stopping)
            for live in stopping:
                live.tree = trees[live.record.process.pid]
        for live, grant in changes:
            self._change(live, grant, now)

    def _is_silent(self, live: Live) -> bool:
        return live.suspended or live.stopped or live.cancelled

    def _change(self, live: Live, grant: Grant, now: float) -> None:
        before = live.record
        if before.since < now:
            self._store.add_span(accounts.span(before, now))
        live.record = accounts.granted(before, grant, now)
        if live.record.resizes > before.resizes:
            self.instruments.resizes.inc()
        live.enforced = False
        if not live.record.grant.cpus <= before.grant.cpus:
            # What it did not use before says nothing of what it has only now.
            live.forget_samples()
        if not grant:
            self._suspend(live)
        else:
            live.published = time.monotonic()
            if live.suspended or before.state == "paused":
                hands.enforce(live)
                hands.resume(live)
            elif not live.agents:
                hands.enforce(live)
            else:
                hands.confine_agentless(live, live.tree)
        self._store.save(live.record)
        live.wake_streams()
        self.note_actual(live)

    def note_actual(self, live: Live) -> None:
        """Count a grant as actual once every agent has acknowledged it."""
        if live.record.state != "running" or live.stopped:
            return
        if any(serial != live.record.serial for serial in live.agents.values()):
            return
        if not live.agents and not live.enforced:
            return
        if live.published is not None:
            if live.agents:
                self.instruments.acknowledgements.observe(time.monotonic() - live.published)
            live.published = None
        live.actual = live.record.grant.cpus
        live.speed = live.speed.change(len(live.actual), self.now())

    def _suspend(self, live: Live) -> None:
        live.actual = frozenset()
        live.published = None
        live.speed = live.speed.change(0, self.now())
        if live.record.state != "paused" or self._is_silent(live):
            return
        self.instruments.pauses.inc()
        hands.suspend(live)

    def _process_ended(self, live: Live) -> None:
        self._end(live, processes.exit_code(live.record.process, live.pidfd))

    def _end(self, live: Live, code: int | None) -> None:
        now = self.now()
        self._store.add_span(accounts.span(live.record, now))
        outcome: Outcome = "unknown"
        if live.cancelled or live.record.started is None:
            outcome = "cancelled"
        elif code is not None:
            outcome = "failed" if code else "finished"
        record = accounts.up_to(live.record, now)
        self._record_end(record, now, outcome, code, live.cpu_seconds, live.speed.steps)
        self._store.learn(record.name, live.speed.rates)
        self.drop(live)
        learned = self._store.speeds(record.name)
        for other in self.live.values():
            if other.record.name == record.name:
                other.learned = learned
        self.react_soon()

    def _record_end(
        self,
        record: Record,
        at: float,
        outcome: Outcome,
        code: int | None,
        cpu_seconds: float | None,
        steps: float | None,
    ) -> None:
        self._store.end(record.id, metrics.ended(record, at, outcome, code, cpu_seconds, steps))
        self.instruments.ended.labels(outcome).inc()

    def _update_gauges(self) -> None:
        states = [live.record.state for live in self.live.values()]
        for state in ("waiting", "running", "paused"):
            self.instruments.jobs.labels(state).set(states.count(state))
        self.instruments.granted.set(
            sum(len(live.record.grant.cpus) for live in self.live.values())
        )
        running = (live for live in self.live.values() if live.record.state == "running")
        self.instruments.used.set(sum(live.used_cpus or 0.0 for live in running))
