# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the kernel says of the jobs: their processes, what they use, whether they obey."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Mapping

from tf_malleable.controller import hands, processes
from tf_malleable.controller.live import Live

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
        self, jobs: Mapping[str, Live], now: Callable[[], float], has_news: Callable[[], None]
    ) -> None:
        """Prepare to watch.

        Args:
            jobs: Those that are live at any time, by id.
            now: Returns the time of all records, in seconds.
            has_news: Is called when something was seen that is worth a decision.
        """
        self._jobs = jobs
        self._now = now
        self._has_news = has_news
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
        observed = [live for live in self._jobs.values() if live.record.state != "waiting"]
        trees = processes.trees(live.record.process.pid for live in observed)
        changed = False
        for live in observed:
            self._note_tree(live, trees[live.record.process.pid])
            changed = self._note_stop(live) or changed
            if live.kill_at is not None and now >= live.kill_at:
                processes.send(live.tree, signal.SIGKILL)
        if changed or any(
            live.record.state == "waiting" and live.expected_until < now and not live.agents
            for live in self._jobs.values()
        ):
            self._has_news()

    @staticmethod
    def _note_tree(live: Live, tree: list[int]) -> None:
        if tree == live.tree:
            return
        # A child has its parent's CPUs of when it was born, perhaps not the present ones.
        hands.confine_agentless(live, set(tree) - set(live.tree))
        live.tree = tree
        live.forget_samples()

    @staticmethod
    def _note_stop(live: Live) -> bool:
        """Note whether somebody else has stopped a job; return whether that is new."""
        stat = processes.read_stat(live.record.process.pid)
        asleep = stat is not None and stat.state == "T"
        if live.suspended and not asleep:
            processes.send(live.tree, signal.SIGSTOP)
        before, live.stopped = live.stopped, asleep and not live.suspended
        if live.stopped:
            live.actual = frozenset()
        return live.stopped != before

    def _sample(self) -> None:
        """Look at the running jobs: what they use, and whether they obey."""
        now, clock = self._now(), time.monotonic()
        self._looks = 0
        news = False
        for live in self._jobs.values():
            if live.record.state != "running":
                continue
            stats = [processes.read_stat(pid) for pid in live.tree]
            cpu_seconds = sum(stat.cpu_seconds for stat in stats if stat is not None)
            live.sample(cpu_seconds, self._runnable(live), now)
            news = news or live.level != live.last_level
            late = live.published is not None and clock - live.published > _PATIENCE_SECONDS
            if late and not live.enforced:
                hands.enforce(live)
        if news:
            self._has_news()

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
