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
import signal
import time
from collections.abc import Iterable

from tf_malleable.controller import accounts, metrics, processes
from tf_malleable.controller.decision import Candidate, decide
from tf_malleable.controller.live import Live
from tf_malleable.controller.messages import Outcome
from tf_malleable.controller.prometheus import Instruments
from tf_malleable.controller.record import Record
from tf_malleable.controller.store import CPUS, Store
from tf_malleable.model import NO_GRANT, Allocation, Grant, Machine, format_cpuset
from tf_malleable.policies import registry

_POLICY = "policy"

_SAMPLE_SECONDS = 0.1
# Jobs are told first, and what a reaction has changed is saved so much later: now and
# then a file system keeps whoever writes waiting.
_SAVE_SECONDS = 0.02
_SAMPLES_PER_SURVEY = 10
# Jobs whose threads are looked at one by one in a sample: half a millisecond each.
_LOOKS_PER_SAMPLE = 4
# An agent that has not carried out its grant by then is helped from outside.
_PATIENCE_SECONDS = 1.0

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
        self._sampler: asyncio.Task[None] | None = None
        self._looks = 0
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
        self._survey()
        for live in self.live.values():
            if live.record.state == "running":
                self.enforce(live)
                self.note_actual(live)
        self._sampler = asyncio.create_task(self._sample_for_ever())
        self.react()

    async def close(self) -> None:
        """Let go of all jobs: those that are paused go on, as without a controller."""
        if self._sampler is not None:
            self._sampler.cancel()
        for handle in (self._reaction, self._review, self._saving):
            if handle is not None:
                handle.cancel()
        self._survey()
        for live in self.live.values():
            if live.suspended:
                processes.send(live.tree, signal.SIGCONT)
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
            delay = max(_SAMPLE_SECONDS, allocation.review_at - now)
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
                self.enforce(live)
                processes.send(live.tree, signal.SIGCONT)
                live.suspended = False
            elif not live.agents:
                self.enforce(live)
            else:
                self._confine_agentless(live, live.tree)
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
        live.suspended = True
        processes.send(live.tree, signal.SIGSTOP)
        # Children that were born before their parent stopped.
        pid = live.record.process.pid
        late = [child for child in processes.trees([pid])[pid] if child not in live.tree]
        processes.send(late, signal.SIGSTOP)
        live.tree += late

    def enforce(self, live: Live) -> None:
        """Carry a grant out from outside, by CPU affinity."""
        if live.record.grant.cpus:
            processes.confine(live.tree, live.record.grant.cpus)
        live.enforced = True

    def _confine_agentless(self, live: Live, pids: Iterable[int]) -> None:
        """Confine those of a running job's processes that have no agent to do it."""
        cpus = live.record.grant.cpus
        if live.record.state == "running" and cpus:
            processes.confine([pid for pid in pids if pid not in live.agents], cpus)

    # What the kernel says.

    async def _sample_for_ever(self) -> None:
        count = 0
        while True:
            await asyncio.sleep(_SAMPLE_SECONDS)
            count += 1
            try:
                if count % _SAMPLES_PER_SURVEY == 0:
                    self._survey()
                self._sample()
            except Exception:
                _log.exception("a look at the jobs' processes failed")

    def _survey(self) -> None:
        """Look at all processes: which belong to a job, and which are stopped."""
        now = self.now()
        observed = [live for live in self.live.values() if live.record.state != "waiting"]
        trees = processes.trees(live.record.process.pid for live in observed)
        changed = False
        for live in observed:
            tree = trees[live.record.process.pid]
            if tree != live.tree:
                # A child has its parent's CPUs of when it was born, perhaps not the present ones.
                self._confine_agentless(live, set(tree) - set(live.tree))
                live.tree = tree
                live.forget_samples()
            stat = processes.read_stat(live.record.process.pid)
            asleep = stat is not None and stat.state == "T"
            if live.suspended and not asleep:
                processes.send(live.tree, signal.SIGSTOP)
            stopped = asleep and not live.suspended
            changed = changed or stopped != live.stopped
            live.stopped = stopped
            if stopped:
                live.actual = frozenset()
            if live.kill_at is not None and now >= live.kill_at:
                processes.send(live.tree, signal.SIGKILL)
        if changed or any(
            live.record.state == "waiting" and live.expected_until < now and not live.agents
            for live in self.live.values()
        ):
            self.react_soon()

    def _sample(self) -> None:
        """Look at the running jobs: what they use, and whether they obey."""
        now, clock = self.now(), time.monotonic()
        self._looks = 0
        news = False
        for live in self.live.values():
            if live.record.state != "running":
                continue
            stats = [processes.read_stat(pid) for pid in live.tree]
            cpu_seconds = sum(stat.cpu_seconds for stat in stats if stat is not None)
            live.sample(cpu_seconds, self._runnable(live), now)
            news = news or live.level != live.last_level
            late = live.published is not None and clock - live.published > _PATIENCE_SECONDS
            if late and not live.enforced:
                self.enforce(live)
        if news:
            self.react_soon()

    def _runnable(self, live: Live) -> int:
        """Return how many threads want a CPU, if the job seems not to use what it has.

        On a host that others use as well, a job can be short of CPU time without
        being idle. To look at every thread costs too much to do it always.
        """
        used, cores = live.used_cpus, len(live.record.grant.cpus)
        if live.record.grant.lent or used is None or used > cores - 0.5:
            return 0
        self._looks += 1
        return processes.runnable(live.tree) if self._looks <= _LOOKS_PER_SAMPLE else cores

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
        self.instruments.used.set(sum(live.used_cpus or 0.0 for live in self.live.values()))
