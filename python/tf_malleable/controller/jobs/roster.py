# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The live jobs: who comes, by what they are found, and how they end."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import replace

from tf_malleable.api.history import Outcome
from tf_malleable.controller.jobs import enforcement
from tf_malleable.controller.jobs.clock import Clock
from tf_malleable.controller.jobs.instruments import Instruments
from tf_malleable.controller.jobs.live import Live
from tf_malleable.controller.ports import Containers
from tf_malleable.controller.state.store import Store
from tf_malleable.linux import cgroup, pidfds, procfs
from tf_malleable.linux.users import user_name
from tf_malleable.model import ProcessId
from tf_malleable.scheduling import accounting, metrics
from tf_malleable.scheduling.learning import is_same_command
from tf_malleable.scheduling.record import Record

# An engine says so much later at most how a container has ended.
_ENGINE_SECONDS = 0.5


class Roster:
    """Not thread-safe: one asyncio loop.

    Attributes:
        live: The jobs, by id, in order of arrival.
    """

    def __init__(
        self,
        store: Store,
        clock: Clock,
        instruments: Instruments,
        containers: Containers | None,
        *,
        has_news: Callable[[], None],
        look_at: Callable[[Live], object],
    ) -> None:
        """Begin without jobs.

        Args:
            store: Where records and ends are kept.
            clock: The time of all records.
            instruments: Count the ends.
            containers: Those of an engine; None to do without.
            has_news: Is called when a job's end is worth a decision.
            look_at: Is called when a container may have become as it was told to be.
        """
        self.live: dict[str, Live] = {}
        self._store = store
        self._clock = clock
        self._instruments = instruments
        self._containers = containers
        self._has_news = has_news
        self._look_at = look_at
        self._by_pid: dict[int, Live] = {}
        self._by_container: dict[str, Live] = {}
        # Containers that ended while no controller looked: their engine may know how.
        self._missed: dict[str, Record] = {}

    # Who comes.

    def load(self) -> None:
        """Take up the jobs of an earlier controller that still run."""
        for record in self._store.load():
            self._adopt(record)

    def _adopt(self, record: Record) -> None:
        pidfd = None if record.process is None else pidfds.open_pidfd(record.process)
        is_waiting = record.container is not None and record.process is None
        out_of_reach = record.container is not None and self._containers is None
        has_ended = pidfd is None and not is_waiting
        if has_ended and record.container is not None and not out_of_reach:
            self._missed[record.container.id] = record
            return
        if has_ended or out_of_reach:
            if pidfd is not None:
                os.close(pidfd)
            self._record_missed(record, None)
            return
        live = self.add(record, pidfd)
        if record.state != "paused":
            return
        if live.container is not None:
            enforcement.suspend(live)
        elif record.process is not None:
            stat = procfs.read_stat(record.process.pid)
            live.note_suspended(stat is not None and stat.state == "T")

    def add(self, record: Record, pidfd: int | None) -> Live:
        """Take up a job; its pidfd is the roster's from now on."""
        live = Live(record, None, self._store.knowledge.lessons(record), [])
        self.live[record.id] = live
        if record.container is not None:
            self._by_container[record.container.id] = live
            assert self._containers is not None
            live.attach_container(
                self._containers.container(record.container, lambda: self._has_changed(live))
            )
        if record.process is not None and pidfd is not None:
            self.attach_process(live, record.process, pidfd)
        return live

    def attach_process(self, live: Live, process: ProcessId, pidfd: int) -> None:
        """Give a job its main process; the pidfd is the roster's from now on."""
        live.attach_process(process, pidfd)
        self._store.save(live.record)
        self._by_pid[process.pid] = live
        asyncio.get_running_loop().add_reader(pidfd, self._process_ended, live)
        # One that somebody has frozen is not to be woken up by a grant.
        self._look_at(live)

    def _has_changed(self, live: Live) -> None:
        if not live.over:
            self._look_at(live)

    # By what they are found.

    def in_container(self, container: str) -> Live | None:
        """Return the job that is the container with this id."""
        return self._by_container.get(container)

    def job_of(self, pid: int) -> Live | None:
        """Return the job a process is part of, as main process or descendant."""
        for ancestor in procfs.ancestors(pid):
            live = self._by_pid.get(ancestor)
            if live is not None and live.record.process and procfs.is_alive(live.record.process):
                return live
        # One that a container has just started with, or `docker exec` has brought in.
        for name in cgroup.cgroup_names(pid) if self._by_container else ():
            if live := self._by_container.get(name):
                return live
        return None

    # How they end.

    @property
    def missed(self) -> frozenset[str]:
        """Ids of containers that ended while no controller looked."""
        return frozenset(self._missed)

    def record_missed_exit(self, container: str, code: int | None) -> None:
        """Record how a container of `missed` has ended; None if nobody knows."""
        record = self._missed.pop(container, None)
        if record is not None:
            self._record_missed(record, code)
            self._has_news()

    def _record_missed(self, record: Record, code: int | None) -> None:
        at = self._clock.now()
        record = accounting.up_to(record, at)
        self._record_end(record, at, _outcome(code), code, None, None)

    def _process_ended(self, live: Live) -> None:
        assert live.record.process is not None
        assert live.pidfd is not None
        code = pidfds.exit_code(live.record.process, live.pidfd)
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
        """Record that a job has ended, and how: exit code as a shell has it."""
        now = self._clock.now()
        self._store.add_span(accounting.span(live.record, now))
        was_cancelled = live.cancelled or live.record.started is None
        outcome: Outcome = "cancelled" if was_cancelled else _outcome(code)
        record = accounting.up_to(live.record, now)
        self._record_end(record, now, outcome, code, live.usage.cpu_seconds, live.speed.steps)
        self.drop(live)
        self._store.knowledge.learn(record, live.speed.rates, finished=outcome == "finished")
        self._teach(record)
        self._has_news()

    def _teach(self, ended: Record) -> None:
        """Let the jobs that are like one that has ended know what it has taught."""
        known = self._store.knowledge.lessons(ended)
        for live in self.live.values():
            if is_same_command(live.record, ended):
                live.learn(known)
            elif live.record.name == ended.name:
                live.learn(replace(live.lessons, rates=known.rates))

    def _record_end(
        self,
        record: Record,
        at: float,
        outcome: Outcome,
        code: int | None,
        cpu_seconds: float | None,
        steps: float | None,
    ) -> None:
        user = user_name(record.uid)
        ended = metrics.ended(record, at, outcome, code, cpu_seconds, steps, user=user)
        self._store.end(record.id, ended)
        self._instruments.ended.labels(outcome).inc()

    def drop(self, live: Live) -> None:
        """Forget a job, as if it had never been there."""
        del self.live[live.record.id]
        if live.record.process is not None:
            del self._by_pid[live.record.process.pid]
        if live.record.container is not None:
            del self._by_container[live.record.container.id]
        self._let_go(live)

    def close(self) -> None:
        """Let go of all jobs: those that are paused go on, as without a controller."""
        for live in tuple(self.live.values()):
            if live.suspended:
                enforcement.resume(live)
            self._store.save(accounting.up_to(live.record, self._clock.now()))
            self.drop(live)

    @staticmethod
    def _let_go(live: Live) -> None:
        if live.pidfd is not None:
            asyncio.get_running_loop().remove_reader(live.pidfd)
            os.close(live.pidfd)
        if live.container is not None:
            live.container.let_go()
        live.end()


def _outcome(code: int | None) -> Outcome:
    if code is None:
        return "unknown"
    return "failed" if code else "finished"
