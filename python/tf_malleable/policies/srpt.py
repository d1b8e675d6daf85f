# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs that are nearly done go first, so that jobs wait for as little as possible."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_malleable.model import Job
from tf_malleable.policies.counting import CountingPolicy, Decision
from tf_malleable.policies.speedup import Curve, fit
from tf_malleable.policies.turnaround import least_turnaround

# Remaining work is known only roughly, and pausing is not free: two jobs that differ
# by less than about this factor are served in order of arrival.
_STEP = 1.25
_SHORTEST_SECONDS = 1.0
_SHORTEST_REVIEW_SECONDS = 0.1
# A job of unknown length: TensorFlow alone takes seconds to start, and new jobs that
# pause each other meanwhile are all late. Of 2 to 15, 6 to 10 were best in simulations.
_USUAL_SECONDS = 8.0
# A speed-up that is not known. Two such jobs share two cores.
_USUAL = Curve(one=1.0, contention=0.35)


class SrptPolicy(CountingPolicy):
    """Shortest remaining work first; longer jobs are paused for shorter ones.

    Remaining work is the steps that remain times the seconds a step takes on one
    core. Of a job that has not reported any it is what remains of the time for which
    the same command ran before. Where there was none, or it is over, the job counts as
    having as much before it as behind it, and 8 s at least: new ones go before long
    ones, so that they soon report, and one that never reports does not stay in front
    for ever.

    How many of the first jobs run, and with how much, follows from how well they
    speed up, as measured: see `turnaround`. Each that runs has at least min.

    Work-conserving: no core is idle while a running job is below max or another
    job's min would fit. Starves: long jobs wait as long as shorter ones keep coming.
    """

    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of so many cores each job gets."""
        ranked = _ranked([job for job in jobs if job.shape.min <= cores])
        best = _best(ranked, cores)
        counts: dict[str, int] = {}
        free = cores
        # First those that had better run, then whoever fits beside them.
        for chosen in (True, False):
            for job, count in zip(ranked, best, strict=True):
                if not free:
                    break
                if (count > 0) is chosen and job.shape.min <= free:
                    counts[job.id] = min(max(job.shape.min, count), free)
                    free -= counts[job.id]
        for job in ranked:
            if not free:
                break
            if job.id in counts:
                more = min(free, job.shape.max - counts[job.id])
                counts[job.id] += more
                free -= more
        return Decision(counts, _review_at(ranked, counts, now))


def _best(ranked: Sequence[Job], cores: int) -> list[int]:
    if not ranked:
        return []
    curves = [fit(job.rates) if len(job.rates) > 1 else _USUAL for job in ranked]
    return least_turnaround(curves, [job.shape.max for job in ranked], cores)


def _ranked(jobs: Sequence[Job]) -> list[Job]:
    """Return jobs with the shortest first, and about equal ones in order of arrival."""
    # Whether a job runs plays no part, so that a decision does not overturn itself.
    return sorted(jobs, key=lambda job: _step(_remaining(job)))


def _remaining(job: Job) -> float:
    """Return seconds of work that remain, on one core; as many as it ran if not known."""
    steps = _steps_left(job)
    if steps is not None:
        return steps * fit(job.rates).one
    return _expected_left(job) or max(_USUAL_SECONDS, job.run_seconds)


def _expected_left(job: Job) -> float | None:
    """Return seconds that remain if it runs as long as before; None if it did not, or is over."""
    if job.expected_seconds is None or job.run_seconds >= job.expected_seconds:
        return None
    return job.expected_seconds - job.run_seconds


def _steps_left(job: Job) -> float | None:
    """Return how many steps remain; None if they or their speed are not known."""
    if job.steps_done is None or job.steps_total is None or not job.rates:
        return None
    return max(0.0, job.steps_total - job.steps_done)


def _step(seconds: float) -> int:
    """Return on which step of a geometric ladder a duration is."""
    if seconds < _SHORTEST_SECONDS:
        return 0
    return 1 + int(math.log(seconds / _SHORTEST_SECONDS) / math.log(_STEP))


def _review_at(ranked: Sequence[Job], counts: dict[str, int], now: float) -> float | None:
    """Return when a job of unknown length, or longer than expected, may have to make room."""
    if len(counts) == len(ranked):
        return None
    ends = (
        _expected_left(job) or _SHORTEST_SECONDS * _STEP ** _step(job.run_seconds) - job.run_seconds
        for job in ranked
        if job.id in counts and _steps_left(job) is None
    )
    soonest = min(ends, default=None)
    return None if soonest is None else now + max(soonest, _SHORTEST_REVIEW_SECONDS)
