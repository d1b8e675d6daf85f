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
import time

from tf_malleable.controller.jobs import enforcement
from tf_malleable.controller.jobs.clock import Clock
from tf_malleable.controller.jobs.enforcement import Enforcer
from tf_malleable.controller.jobs.instruments import Instruments
from tf_malleable.controller.jobs.live import Live
from tf_malleable.controller.jobs.roster import Roster
from tf_malleable.controller.jobs.watch import SAMPLE_SECONDS, Watch
from tf_malleable.controller.ports import Containers
from tf_malleable.controller.state.store import CPUS, Store
from tf_malleable.model import Allocation, Machine, format_cpuset
from tf_malleable.policies import registry
from tf_malleable.scheduling.decision import Candidate, changes, decide
from tf_malleable.scheduling.record import Record

_POLICY = "policy"

# Jobs are told first, and what a reaction has changed is saved so much later: a file
# system may keep whoever writes waiting.
_SAVE_SECONDS = 0.02

_log = logging.getLogger(__name__)


class Reactor:
    """Decides and sees to it. Not thread-safe: one asyncio loop.

    Attributes:
        instruments: Counters for a monitoring system.
        machine: What is shared out.
        roster: The jobs.
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
        self.policy = policy or store.setting(_POLICY) or registry.DEFAULT
        self.problem: str | None = None
        self._chosen = registry.create(self.policy)
        self._fallback = registry.create(registry.DEFAULT)
        self._store = store
        self._clock = Clock()
        self._reaction: asyncio.Handle | None = None
        self._review: asyncio.TimerHandle | None = None
        self._saving: asyncio.Task[None] | None = None
        self.roster = Roster(
            store,
            self._clock,
            self.instruments,
            containers,
            has_news=self.react_soon,
            look_at=lambda live: self._watch.look_at(live),
        )
        self._enforcer = Enforcer(self.roster.live, store, self._clock, self.instruments)
        self._watch = Watch(
            self.roster.live,
            self.now,
            has_news=self.react_soon,
            has_settled=self._enforcer.settle,
        )
        self.instruments.cpus.set(len(machine.cpus))

    def now(self) -> float:
        """Return the time of all records, in seconds."""
        return self._clock.now()

    async def start(self) -> None:
        """Take up the jobs of an earlier controller that still run, and begin."""
        self._store.set_setting(_POLICY, self.policy)
        self._store.set_setting(CPUS, format_cpuset(self.machine.cpuset))
        self.roster.load()
        self._watch.survey()
        for live in self.roster.live.values():
            if live.record.state == "running":
                enforcement.enforce(live)
                self._enforcer.settle(live)
        self._watch.start()
        self.react()

    async def close(self) -> None:
        """Let go of all jobs: those that are paused go on, as without a controller."""
        self._watch.stop()
        for handle in (self._reaction, self._review, self._saving):
            if handle is not None:
                handle.cancel()
        self._watch.survey()
        self.roster.close()
        self._store.flush()

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
            live.amend(record)
            self._store.save(record)
            self.react()

    def acknowledge(self, live: Live, pid: int, serial: int) -> None:
        """Take note that a process of a job has carried out a grant."""
        live.acknowledge(pid, serial)
        self._enforcer.settle(live)

    def disconnect(self, live: Live, pid: int) -> None:
        """Count no more on a process of a job; see to its grant ourselves if none is left."""
        if live.disconnect(pid):
            enforcement.enforce(live)
        self._enforcer.settle(live)
        self.react_soon()

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
        live = self.roster.live
        allocation = self._decide(now)
        current = {job: each.record.grant for job, each in live.items()}
        restless = [
            job
            for job, each in live.items()
            if each.record.state != "waiting" and not each.record.grant and not each.is_silent
        ]
        self._enforcer.apply(changes(allocation, current, restless), now)
        if self._saving is None:
            self._saving = asyncio.create_task(self._save_later())
        self.instruments.show(live.values())
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
            for live in self.roster.live.values()
        ]
        for live in self.roster.live.values():
            live.note_decision()
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
