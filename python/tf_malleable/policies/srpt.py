# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shortest remaining processing time first, to minimise mean turnaround."""

from __future__ import annotations

from collections.abc import Sequence

from tf_malleable.model import Job
from tf_malleable.policies.counting import CountingPolicy, Decision
from tf_malleable.policies.remaining import (
    expected_left,
    geometric_step,
    remaining_work,
    steps_left,
)
from tf_malleable.policies.speedup import Curve, fit
from tf_malleable.policies.turnaround import least_turnaround

# Remaining work is an estimate and pausing is not free: jobs that differ by less than
# about this factor are served in order of arrival.
_STEP = 1.25
_SHORTEST_REVIEW_SECONDS = 0.1
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
    speed-ups: see `turnaround`. Each running job has at least min. A job of higher
    priority counts as shorter than any of lower priority.

    Work-conserving: no core is idle while a running job is below max or another
    job's min would fit. Starves: long jobs wait as long as shorter ones keep coming.
    """

    preempts = True

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
    """Return jobs by priority, the shortest first, and nearly equal ones in order of arrival."""
    # Independent of whether a job runs, so that a decision does not reverse itself.
    return sorted(jobs, key=lambda job: (-job.priority, geometric_step(remaining_work(job), _STEP)))


def _review_at(ranked: Sequence[Job], counts: dict[str, int], now: float) -> float | None:
    """Return when a job of unknown or exceeded length may have to make room for another."""
    if len(counts) == len(ranked):
        return None
    ends = (
        expected_left(job) or _STEP ** geometric_step(job.run_seconds, _STEP) - job.run_seconds
        for job in ranked
        if job.id in counts and steps_left(job) is None
    )
    soonest = min(ends, default=None)
    return None if soonest is None else now + max(soonest, _SHORTEST_REVIEW_SECONDS)
