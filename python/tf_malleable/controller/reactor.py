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
from dataclasses import replace

from tf_malleable.controller import accounts, hands, metrics, processes
from tf_malleable.controller.container import Containers
from tf_malleable.controller.decision import Candidate, decide
from tf_malleable.controller.lessons import is_same_command, learn, lessons
from tf_malleable.controller.live import Live
from tf_malleable.controller.messages import Outcome
from tf_malleable.controller.prometheus import Instruments
from tf_malleable.controller.record import ProcessId, Record
from tf_malleable.controller.store import CPUS, Store
from tf_malleable.controller.watch import SAMPLE_SECONDS, Watch
from tf_malleable.model import NO_GRANT, Allocation, Grant, Machine, format_cpuset
from tf_malleable.policies import registry

_POLICY = "policy"

# Jobs are told first, and what a reaction has changed is saved so much later: a file
# system may keep whoever writes waiting.
_SAVE_SECONDS = 0.02

# An engine says so much later at most how a container has ended.
_ENGINE_SECONDS = 0.5

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

    def __init__(
        self,
        machine: Machine,
        policy: str | None,
        store: Store,
        containers: Containers | None = None,
    ) -> None:
        self.instruments = Instruments()
        self.machine = machine
        self.live: dict[str, Live] = {}
        self.policy = policy or store.setting(_POLICY) or registry.DEFAULT
        self.problem: str | None = None
        self._chosen = registry.create(self.policy)
        self._fallback = registry.create(registry.DEFAULT)
        self._store = store
        self._containers = containers
        self._by_pid: dict[int, Live] = {}
        self._by_container: dict[str, Live] = {}
        # Containers that ended while no controller looked: their engine may know how.
        self._unseen: dict[str, Record] = {}
        # Unix time that never jumps.
        self._epoch = time.time() - time.monotonic()
        self._reaction: asyncio.Handle | None = None
        self._review: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self._watch = Watch(self.live, self.now, self.react_soon, self.note_actual)
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
        self._by_container.clear()
        self._store.flush()

    def _adopt(self, record: Record) -> None:
        pidfd = None if record.process is None else processes.open_pidfd(record.process)
        is_waiting = record.container is not None and record.process is None
        out_of_reach = record.container is not None and self._containers is None
        has_ended = pidfd is None and not is_waiting
        if has_ended and record.container is not None and not out_of_reach:
            self._unseen[record.container.id] = record
            return
        if has_ended or out_of_reach:
            if pidfd is not None:
                os.close(pidfd)
            self._end_unseen(record, None)
            return
        live = self.add(record, pidfd)
        if record.state != "paused":
            return
        if live.container is not None:
            hands.suspend(live)
        elif record.process is not None:
            stat = processes.read_stat(record.process.pid)
            live.suspended = stat is not None and stat.state == "T"

    @property
    def unseen(self) -> frozenset[str]:
        """Ids of containers that ended while no controller looked."""
        return frozenset(self._unseen)

    def has_ended_unseen(self, container: str, code: int | None) -> None:
        """Take note of how a container of `unseen` has ended; None if nobody knows."""
        record = self._unseen.pop(container, None)
        if record is not None:
            self._end_unseen(record, code)
            self.react_soon()

    def _end_unseen(self, record: Record, code: int | None) -> None:
        at = self.now()
        record = accounts.up_to(record, at)
        self._record_end(record, at, _outcome(code), code, None, None)

    def add(self, record: Record, pidfd: int | None) -> Live:
        """Take up a job; its pidfd is the reactor's from now on."""
        live = Live(record, None, lessons(self._store, record), [])
        self.live[record.id] = live
        if record.container is not None:
            self._by_container[record.container.id] = live
            assert self._containers is not None
            live.container = self._containers.container(
                record.container, lambda: self._has_changed(live)
            )
        if record.process is not None and pidfd is not None:
            self.has_process(live, record.process, pidfd)
        return live

    def has_process(self, live: Live, process: ProcessId, pidfd: int) -> None:
        """Take note of a job's main process; the pidfd is the reactor's from now on."""
        live.record = replace(live.record, process=process)
        self._store.save(live.record)
        live.pidfd, live.tree = pidfd, [process.pid]
        self._by_pid[process.pid] = live
        asyncio.get_running_loop().add_reader(pidfd, self._process_ended, live)
        # One that somebody has frozen is not to be woken up by a grant.
        self._watch.look_at(live)

    def _has_changed(self, live: Live) -> None:
        if not live.over:
            self._watch.look_at(live)

    def drop(self, live: Live) -> None:
        """Forget a job, as if it had never been there."""
        del self.live[live.record.id]
        if live.record.process is not None:
            del self._by_pid[live.record.process.pid]
        if live.record.container is not None:
            del self._by_container[live.record.container.id]
        self._forget(live)

    def _forget(self, live: Live) -> None:
        if live.pidfd is not None:
            asyncio.get_running_loop().remove_reader(live.pidfd)
            os.close(live.pidfd)
        if live.container is not None:
            live.container.let_go()
        live.over = True
        live.wake_streams()

    def in_container(self, container: str) -> Live | None:
        """Return the job that is the container with this id."""
        return self._by_container.get(container)

    def job_of(self, pid: int) -> Live | None:
        """Return the job a process is part of, as main process or descendant."""
        for ancestor in processes.ancestors(pid):
            live = self._by_pid.get(ancestor)
            if live is not None and live.record.process and processes.is_alive(live.record.process):
                return live
        # One that a container has just started with, or `docker exec` has brought in.
        for name in processes.cgroup_names(pid) if self._by_container else ():
            if live := self._by_container.get(name):
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
        self.instruments.show(self.live.values())
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
            roots = {
                live.record.id: live.record.process.pid
                for live in stopping
                if live.container is None and live.record.process
            }
            trees = processes.trees(roots.values())
            for job, root in roots.items():
                self.live[job].tree = trees[root]
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
            elif not live.agents or live.container is not None:
                hands.enforce(live)
            else:
                hands.confine_agentless(live, live.tree)
        self._store.save(live.record)
        live.wake_streams()
        self.note_actual(live)

    def note_actual(self, live: Live) -> None:
        """Count a grant as actual once every agent has acknowledged it.

        And, of a container, once the kernel says so too.
        """
        if live.record.state != "running" or live.stopped:
            return
        if any(serial != live.record.serial for serial in live.agents.values()):
            return
        if not live.enforced and (not live.agents or live.container is not None):
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
        assert live.record.process is not None
        assert live.pidfd is not None
        code = processes.exit_code(live.record.process, live.pidfd)
        if code is not None or live.container is None:
            self.end(live, code)
            return
        # The kernel is too old to say, but the engine does in a moment.
        loop = asyncio.get_running_loop()
        loop.remove_reader(live.pidfd)
        loop.call_later(_ENGINE_SECONDS, self._end_after_all, live)

    def _end_after_all(self, live: Live) -> None:
        if not live.over:
            self.end(live, None)

    def end(self, live: Live, code: int | None) -> None:
        """Take note that a job has ended, and how: exit code as a shell has it."""
        now = self.now()
        self._store.add_span(accounts.span(live.record, now))
        was_cancelled = live.cancelled or live.record.started is None
        outcome: Outcome = "cancelled" if was_cancelled else _outcome(code)
        record = accounts.up_to(live.record, now)
        self._record_end(record, now, outcome, code, live.cpu_seconds, live.speed.steps)
        learn(self._store, record, live.speed.rates, finished=outcome == "finished")
        self.drop(live)
        known = lessons(self._store, record)
        for other in self.live.values():
            if is_same_command(other.record, record):
                other.lessons = known
            elif other.record.name == record.name:
                other.lessons = replace(other.lessons, rates=known.rates)
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


def _outcome(code: int | None) -> Outcome:
    if code is None:
        return "unknown"
    return "failed" if code else "finished"
