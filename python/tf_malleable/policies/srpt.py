# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shortest remaining processing time first, to minimise mean turnaround."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_malleable.model import Job
from tf_malleable.policies.counting import CountingPolicy, Decision
from tf_malleable.policies.speedup import Curve, fit
from tf_malleable.policies.turnaround import least_turnaround

# Remaining work is an estimate and pausing is not free: jobs that differ by less than
# about this factor are served in order of arrival.
_STEP = 1.25
_SHORTEST_SECONDS = 1.0
_SHORTEST_REVIEW_SECONDS = 0.1
# Assumed length of an unknown job. TensorFlow alone takes seconds to start, and new jobs
# that pause each other meanwhile all finish late. Of 2 to 15 s, 6 to 10 s were best in
# simulations.
_USUAL_SECONDS = 8.0
# Assumed speed-up of an unknown job. Two such jobs share two cores.
_USUAL = Curve(one=1.0, contention=0.35)


class SrptPolicy(CountingPolicy):
    """Shortest remaining work first; longer jobs are paused for shorter ones.

    Remaining work is the number of remaining steps times the seconds a step takes on one
    core. For a job that reports no steps, it is the run time of earlier runs of the same
    command less the time it has run. If there were none, or that time is over, a job is
    assumed to have as much left as it has run, and at least 8 s: new jobs go before long
    ones and so report soon, and a job that never reports does not stay in front forever.

    How many of the first jobs run, and with how many cores, follows from their measured
    speed-ups: see `turnaround`. Each running job has at least min.

    Work-conserving: no core is idle while a running job is below max or another
    job's min would fit. Starves: long jobs wait as long as shorter ones keep coming.
    """

    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of `cores` cores each job gets."""
        ranked = _ranked([job for job in jobs if job.shape.min <= cores])
        best = _best(ranked, cores)
        counts: dict[str, int] = {}
        free = cores
        # First the jobs chosen to run, then any that fit beside them.
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
    """Return jobs with the shortest first, and nearly equal ones in order of arrival."""
    # Independent of whether a job runs, so that a decision does not reverse itself.
    return sorted(jobs, key=lambda job: _step(_remaining(job)))


def _remaining(job: Job) -> float:
    """Return the remaining work in seconds on one core; as much as it ran if unknown."""
    steps = _steps_left(job)
    if steps is not None:
        return steps * fit(job.rates).one
    return _expected_left(job) or max(_USUAL_SECONDS, job.run_seconds)


def _expected_left(job: Job) -> float | None:
    """Return the seconds left of the expected run time; None if unknown or exceeded."""
    if job.expected_seconds is None or job.run_seconds >= job.expected_seconds:
        return None
    return job.expected_seconds - job.run_seconds


def _steps_left(job: Job) -> float | None:
    """Return how many steps remain; None if they or their speed are unknown."""
    if job.steps_done is None or job.steps_total is None or not job.rates:
        return None
    return max(0.0, job.steps_total - job.steps_done)


def _step(seconds: float) -> int:
    """Return the index of a duration on a geometric scale."""
    if seconds < _SHORTEST_SECONDS:
        return 0
    return 1 + int(math.log(seconds / _SHORTEST_SECONDS) / math.log(_STEP))


def _review_at(ranked: Sequence[Job], counts: dict[str, int], now: float) -> float | None:
    """Return when a job of unknown or exceeded length may have to make room for another."""
    if len(counts) == len(ranked):
        return None
    ends = (
        _expected_left(job) or _SHORTEST_SECONDS * _STEP ** _step(job.run_seconds) - job.run_seconds
        for job in ranked
        if job.id in counts and _steps_left(job) is None
    )
    soonest = min(ends, default=None)
    return None if soonest is None else now + max(soonest, _SHORTEST_REVIEW_SECONDS)
