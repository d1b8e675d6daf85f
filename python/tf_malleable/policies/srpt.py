# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shortest remaining processing time first, to minimise mean turnaround."""

from __future__ import annotations

from collections.abc import Sequence

from tf_malleable.model import Job
from tf_malleable.policies.counting import CountingPolicy, Decision, least, present
from tf_malleable.policies.orders import arrival
from tf_malleable.policies.placement import first_started
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
_STEP = 1.15
_SHORTEST_REVIEW_SECONDS = 0.1
# Assumed of a job whose speed-up is unknown: with all n cores of a large machine it is
# n / (1 + _USUAL_LOSS) times as fast as with one. Two such jobs share two cores.
_USUAL_LOSS = 0.9
# Until its first step, a program imports and builds on one core: for so long at most if it
# reported steps in earlier runs, and if it is not known whether it ever will.
_STARTING_SECONDS = 60.0
_STARTING_SECONDS_OF_NEW_ONES = 10.0
# A job that has waited for so many seconds plus so many times its own length is late.
_PATIENCE_SECONDS = 600.0
_PATIENCE_LENGTHS = 3.0
# No core moves if all jobs would gain or lose less than this part of theirs; noise would
# move them back and forth.
_STICKY = 8


class SrptPolicy(CountingPolicy):
    """Shortest remaining work first; longer jobs are paused for shorter ones.

    Remaining work is the number of remaining steps times the seconds a step takes on one
    core. For a job that reports no steps, it is the run time of earlier runs of the same
    command less the time it has run. If there were none, or that time is over, a job is
    assumed to have as much left as it has run, and at least 30 s: new jobs go before long
    ones and so report soon. Only jobs whose length is known are paused: a server, or a
    script that says nothing, runs on with at least min.

    How many of the first jobs run, and with how many cores, follows from their measured
    speed-ups: see `turnaround`. Each running job has at least min. A job of higher
    priority counts as shorter than any of lower priority. A job that has been without
    cores for more than ten minutes and three times its length is late: it goes before all
    others, and of late ones those that arrived first, a minute earlier per point of priority.

    Work-conserving: no core is idle while a running job below max is expected to be
    faster with it, or the next in the queue would fit. Starves nobody.
    """

    preempts = True

    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of `cores` cores each job gets."""
        ranked = _ranked([job for job in jobs if job.shape.min <= cores], now)
        curves = [fit(job.rates) if len(job.rates) > 1 else _usual(cores) for job in ranked]
        limits = [
            max(job.shape.min, curve.fastest(job.shape.max))
            for job, curve in zip(ranked, curves, strict=True)
        ]
        usable = [
            job.shape.min if _is_starting(job) or _is_ending(job) else limit
            for job, limit in zip(ranked, limits, strict=True)
        ]
        best = least_turnaround(curves, usable, cores) if ranked else []
        counts = _admitted(ranked, best, cores, now)
        free = cores - sum(counts.values())
        for most in (usable, limits):
            for job, limit in zip(ranked, most, strict=True):
                if job.id in counts:
                    more = max(0, min(free, limit - counts[job.id]))
                    counts[job.id] += more
                    free -= more
        return Decision(_steadied(ranked, counts, cores), _review_at(ranked, counts, now))


def _admitted(ranked: Sequence[Job], best: Sequence[int], cores: int, now: float) -> dict[str, int]:
    """Return cores of the jobs that run, by id: of the best numbers those that can be had."""
    running = first_started(job for job in ranked if job.state == "running")
    counts = least([job for job in running if not _may_be_paused(job)], cores)
    free = cores - sum(counts.values())
    # After late ones those chosen to run, then any that fit beside them.
    order = sorted(
        zip(ranked, best, strict=True), key=lambda each: (not _is_late(each[0], now), not each[1])
    )
    blocked = False
    for job, count in order:
        have = counts.get(job.id, 0)
        if not have:
            if job.shape.min > free:
                blocked = blocked or _is_late(job, now)
                continue
            if blocked and not _may_be_paused(job):
                # It could not make room any more.
                continue
        more = max(0, min(max(job.shape.min, count) - have, free))
        counts[job.id] = have + more
        free -= more
    return counts


def _steadied(ranked: Sequence[Job], counts: dict[str, int], cores: int) -> dict[str, int]:
    """Return what the jobs have now if that is nearly the same and uses as many cores."""
    now = {job.id: present(job) for job in ranked if job.state == "running"}
    same = (
        now.keys() == counts.keys()
        and sum(now.values()) == sum(counts.values())
        and all(abs(now[name] - count) <= now[name] // _STICKY for name, count in counts.items())
    )
    return now if same else counts


def _is_starting(job: Job) -> bool:
    """Return whether a job does not report steps yet, and has done so or may do so soon."""
    longest = _STARTING_SECONDS if job.rates else _STARTING_SECONDS_OF_NEW_ONES
    return job.steps_done is None and job.run_seconds < longest


def _is_ending(job: Job) -> bool:
    """Return whether all steps are done: what is left runs on one core, and not for long."""
    return steps_left(job) == 0.0


def _may_be_paused(job: Job) -> bool:
    return steps_left(job) is not None or job.expected_seconds is not None


def _usual(cores: int) -> Curve:
    return Curve(1.0, _USUAL_LOSS / cores)


def _late_at(job: Job) -> float:
    """Return when a job without cores has waited for too long."""
    length = job.run_seconds + remaining_work(job)
    return job.submitted + job.run_seconds + _PATIENCE_SECONDS + _PATIENCE_LENGTHS * length


def _is_late(job: Job, now: float) -> bool:
    return now >= _late_at(job)


def _ranked(jobs: Sequence[Job], now: float) -> list[Job]:
    """Return late jobs, then by priority the shortest first, nearly equal ones by arrival."""

    # Independent of whether a job runs, so that a decision does not reverse itself.
    def rank(job: Job) -> tuple[float, ...]:
        if _is_late(job, now):
            return (0.0, arrival(job))
        return (1.0, -job.priority, geometric_step(remaining_work(job), _STEP))

    return sorted(jobs, key=rank)


def _review_at(ranked: Sequence[Job], counts: dict[str, int], now: float) -> float | None:
    """Return when time alone will have changed who should run; None if it will not."""
    waiting = [job for job in ranked if job.id not in counts]
    if not waiting:
        return None
    # A job of unknown or exceeded length counts as longer the longer it runs.
    times = [
        now
        + (expected_left(job) or _STEP ** geometric_step(job.run_seconds, _STEP) - job.run_seconds)
        for job in ranked
        if job.id in counts and steps_left(job) is None and _may_be_paused(job)
    ]
    times += [at for job in waiting if (at := _late_at(job)) > now]
    return max(min(times), now + _SHORTEST_REVIEW_SECONDS) if times else None
