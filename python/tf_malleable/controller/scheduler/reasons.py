# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reasons why jobs have no cores, or have not ended, at one instant, in one sentence each."""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache

from tf_malleable.controller.jobs.job_views import why_late, why_narrowed, why_not, why_not_over
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.scheduler.reactor import Reactor
from tf_malleable.model.schedules.local_time import opening_text
from tf_malleable.model.schedules.time_window import TimeWindow
from tf_malleable.model.units import cores as cores_of


class Reasons:
    """Snapshot of all live jobs, from which each of many jobs can be explained at low cost."""

    def __init__(self, reactor: Reactor, now: float) -> None:
        """Take the snapshot.

        Args:
            reactor: Has the live jobs.
            now: Unix time in seconds.
        """
        self._now, self._wall = now, reactor.wall()
        self._roster = reactor.roster
        self._held_back = reactor.roster.held_back()
        self._total = len(reactor.machine.cpus)
        self._free = self._total
        arrivals = []
        for each in reactor.roster.live.values():
            self._free -= len(each.record.grant.own)
            if not each.record.grant and not each.record.held:
                arrivals.append(each.record.submitted)
        self._arrivals = sorted(arrivals)

    def of(self, live: LiveJob) -> str | None:
        """Return why a job has no cores or has not ended; None if it is as one expects."""
        return self.explain(live)[0]

    def explain(self, live: LiveJob) -> tuple[str | None, bool]:
        """Return why a job has no cores, and whether it can get some without a person's action.

        Of a job with cores, return why it cannot use all of them, or has not ended although its
        main process has.
        """
        record = live.record
        if record.overdue:
            return "it has reached its time limit and is about to end", False
        if record.unmet is not None:
            return f"job {record.unmet} did not succeed, so it does not start", False
        if record.cancelled:
            return "it was cancelled and is about to end", False
        if record.held:
            return f"it is paused; resume it with: tfm resume {record.id}", False
        if live.stopped:
            return "its processes were stopped by a signal", False
        if live.outside and record.window is not None:
            return _until_open(record.window, self._wall), False
        if record.grant:
            return why_narrowed(live) or why_not_over(live) or self._why_late(live), False
        if live.is_absent(self._now):
            return "the process that asked for cores no longer waits for them", False
        if before := self._roster.before(live):
            jobs = ", ".join(f"{each.record.id} ({each.record.name})" for each in before)
            is_success = all(each.record.id in record.after_ok for each in before)
            what = "success" if is_success else "end"
            return f"it starts after the {what} of job {jobs}", False
        if record.id in self._held_back:
            return f"no more than {record.at_once} of the jobs of its array run at once", False
        if live.lack is not None:
            return why_not(live), True
        ahead = bisect_left(self._arrivals, record.submitted)
        waits = "1 job that waits" if ahead == 1 else f"{ahead} jobs that wait"
        queue = f", and {waits} arrived before it" if ahead else ""
        free = f"{max(0, self._free)} of {self._total} are free"
        return f"it needs {cores_of(record.shape.min)}, {free}{queue}", True

    def _why_late(self, live: LiveJob) -> str | None:
        if live.record.slo is None:
            return None
        older = [
            each
            for each in self._roster.live.values()
            if each.record.slo is not None and each.record.submitted < live.record.submitted
        ]
        return why_late(live, older, self._now)


@lru_cache(maxsize=1024)
def _waits(window: TimeWindow, minute: int) -> str:
    return f"it waits until {opening_text(window, 60.0 * minute)}: it may run only {window.phrase}"


def _until_open(window: TimeWindow, time: float) -> str:
    return _waits(window, int(time // 60))
