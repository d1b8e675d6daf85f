# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the kernel says of the jobs: their processes, what they use, whether they obey."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping

from tf_malleable.controller.jobs import enforcement
from tf_malleable.controller.jobs.live import Live
from tf_malleable.controller.ports import Look
from tf_malleable.linux import procfs, signals

SAMPLE_SECONDS = 0.1
_SAMPLES_PER_SURVEY = 10
# Jobs whose threads are looked at one by one in a sample: half a millisecond each.
_LOOKS_PER_SAMPLE = 4
# An agent that has not carried out its grant by then is helped from outside.
_PATIENCE_SECONDS = 1.0

_log = logging.getLogger(__name__)


class Watch:
    """Looks at the jobs every tenth of a second. Not thread-safe: one asyncio loop."""

    def __init__(
        self,
        jobs: Mapping[str, Live],
        now: Callable[[], float],
        *,
        has_news: Callable[[], None],
        has_settled: Callable[[Live], None],
    ) -> None:
        """Prepare to watch.

        Args:
            jobs: Those that are live at any time, by id.
            now: Returns the time of all records, in seconds.
            has_news: Is called when something was seen that is worth a decision.
            has_settled: Is called when a container was seen to have what it is granted.
        """
        self._jobs = jobs
        self._now = now
        self._has_news = has_news
        self._has_settled = has_settled
        self._looks = 0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Look from now on."""
        self._task = asyncio.create_task(self._look_for_ever())

    def stop(self) -> None:
        """Look no more."""
        if self._task is not None:
            self._task.cancel()

    async def _look_for_ever(self) -> None:
        count = 0
        while True:
            await asyncio.sleep(SAMPLE_SECONDS)
            count += 1
            try:
                if count % _SAMPLES_PER_SURVEY == 0:
                    self.survey()
                self._sample()
            except Exception:
                _log.exception("a look at the jobs' processes failed")

    def survey(self) -> None:
        """Look at all processes: which belong to a job, and which are stopped."""
        now = self._now()
        roots = {
            live.record.id: live.record.process.pid
            for live in self._jobs.values()
            if live.record.state != "waiting" and live.container is None and live.record.process
        }
        trees = procfs.trees(roots.values())
        changed = False
        for job, root in roots.items():
            self._note_tree(self._jobs[job], trees[root])
            changed = self._note_stop(self._jobs[job], root) or changed
        for live in self._jobs.values():
            if live.kill_at is not None and now >= live.kill_at:
                enforcement.kill(live)
            if live.container is not None and live.astray:
                self._put_right(live)
        if changed or any(live.is_absent(now) for live in self._jobs.values()):
            self._has_news()

    @staticmethod
    def _put_right(live: Live) -> None:
        """Tell a container again what it was told, but somebody else has changed since."""
        if live.suspended:
            enforcement.suspend(live)
        elif live.record.state == "running":
            enforcement.enforce(live)

    @staticmethod
    def _note_tree(live: Live, tree: list[int]) -> None:
        new = set(tree) - set(live.tree)
        if live.note_tree(tree):
            # A child has its parent's CPUs of when it was born, perhaps not the present ones.
            enforcement.confine_agentless(live, new)
            live.usage.forget()

    @staticmethod
    def _note_stop(live: Live, root: int) -> bool:
        """Note whether somebody else has stopped a job; return whether that is new."""
        stat = procfs.read_stat(root)
        asleep = stat is not None and stat.state == "T"
        if live.suspended and not asleep:
            signals.send(live.tree, signal.SIGSTOP)
        return live.note_stopped(asleep and not live.suspended)

    def _sample(self) -> None:
        """Look at the running jobs: what they use, and whether they obey."""
        now, clock = self._now(), time.monotonic()
        self._looks = 0
        news = False
        for live in self._jobs.values():
            seen, changed = self.look_at(live)
            news = news or changed
            if live.record.state != "running":
                continue
            cpu_seconds = self._cpu_seconds(live, seen)
            if cpu_seconds is None:
                continue
            live.usage.add(cpu_seconds, self._runnable(live), now)
            news = news or live.level != live.last_level
            late = live.published is not None and clock - live.published > _PATIENCE_SECONDS
            if late and not live.enforced and live.container is None:
                enforcement.enforce(live)
        if news:
            self._has_news()

    def look_at(self, live: Live) -> tuple[Look | None, bool]:
        """Look at a job if it is a container.

        Returns:
            What was seen, and whether that is worth a decision.
        """
        process = live.record.process
        look = live.container.look(process.pid) if live.container and process else None
        if look is None:
            return None, False
        live.note_tree(list(look.pids))
        live.note_astray(not look.in_force and not look.stopped)
        is_new = live.note_stopped(look.stopped)
        running = live.record.state == "running" and not live.stopped
        if running and look.in_force and not live.enforced:
            live.note_enforced()
            self._has_settled(live)
        return look, is_new

    @staticmethod
    def _cpu_seconds(live: Live, look: Look | None) -> float | None:
        """Return the CPU time a job has used, None if that cannot be said."""
        if look is not None:
            return look.cpu_seconds
        if live.container is not None:
            return None
        stats = [procfs.read_stat(pid) for pid in live.tree]
        return sum(stat.cpu_seconds for stat in stats if stat is not None)

    def _runnable(self, live: Live) -> int:
        """Return how many threads want a CPU, if the job seems not to use what it has.

        On a host that others use as well, a job can be short of CPU time without
        being idle. To look at every thread costs too much to do it always.
        """
        used, cores = live.used_cpus, len(live.record.grant.cpus)
        if live.record.grant.lent or used is None or used > cores - 0.5:
            return 0
        self._looks += 1
        return procfs.runnable(live.tree) if self._looks <= _LOOKS_PER_SAMPLE else cores
