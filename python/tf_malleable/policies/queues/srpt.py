# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shortest remaining processing time first, for low mean turnaround and makespan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from tf_malleable.model import Job, Shape
from tf_malleable.policies.queues.makespan import USUAL_WEIGHT, evened, makespan_weight
from tf_malleable.policies.queues.orders import arrival
from tf_malleable.policies.queues.remaining_work import (
    expected_left,
    geometric_step,
    remaining_work,
    steps_left,
    whole_work,
)
from tf_malleable.policies.queues.speedup import Curve, fit
from tf_malleable.policies.queues.turnaround import least_turnaround
from tf_malleable.policies.shares.core_counts import CountingPolicy, Decision, least, present
from tf_malleable.policies.shares.max_min_shares import fill
from tf_malleable.policies.shares.placement import first_started

# Remaining work is an estimate and pausing is not free: jobs that differ by less than
# about this factor are served in order of arrival.
_STEP = 1.15
_SHORTEST_REVIEW_SECONDS = 0.1
# Assumed for a job whose speed-up is unknown: with all n cores of a large machine it is
# n / (1 + _USUAL_LOSS) times as fast as with one. Two such jobs share two cores.
_USUAL_LOSS = 0.9
# Until its first step, a program imports and builds on one core. Maximum time of this phase,
# for a job that reported steps in earlier runs and for one that may never report any.
_STARTING_SECONDS = 60.0
_STARTING_SECONDS_OF_NEW_ONES = 10.0
# A job is late once it has waited for this many seconds plus this multiple of its own length.
_PATIENCE_SECONDS = 600.0
_PATIENCE_LENGTHS = 3.0
# No core moves if no job would gain or lose more than its cores divided by this; otherwise
# noise would move cores back and forth.
_STICKY = 8


class SrptPolicy(CountingPolicy):
    """Shortest remaining work first; longer jobs are paused for shorter ones.

    Remaining work is the number of remaining steps times the seconds a step takes on one
    core. For a job that reports no steps, it is the run time of earlier runs of the same
    command less the time it has run. Without earlier runs, or after that time, a job is
    assumed to have as much left as it has run, and at least 30 s: new jobs run before long
    ones and so report soon. Only jobs whose length is known are paused: a server, or a
    script that reports nothing, runs on with at least min.

    The number of running jobs and their cores follow from the measured speed-ups: see
    `turnaround` and `makespan`. Each running job has at least min. A job of higher
    priority counts as shorter than any of lower priority. A job that has been without
    cores for more than ten minutes plus three times its length is late: late jobs go before
    all others, in order of arrival, each point of priority counting as a minute earlier.
    A job whose min does not fit beside shorter ones that leave cores idle goes before them if
    that makes them wait less than it would wait.

    Work-conserving: no core is idle while a running job below max is expected to be
    faster with it, or the next in the queue would fit. Starves no job.
    """

    preempts = True

    def decide(self, jobs: Sequence[Job], cores: int, now: float) -> Decision:
        """Return how many of `cores` cores each job gets."""
        entries = _ranked([job for job in jobs if job.shape.min <= cores], _prior(cores), now)
        ranked = [entry.job for entry in entries]
        curves = [entry.curve for entry in entries]
        limits = [
            max(job.shape.min, curve.fastest(job.shape.max))
            for job, curve in zip(ranked, curves, strict=True)
        ]
        usable = [
            job.shape.min if _is_starting(job) or _is_ending(job) else limit
            for job, limit in zip(ranked, limits, strict=True)
        ]
        weight, best = _chosen(entries, curves, usable, cores)
        counts = _admitted(entries, best, usable, cores)
        wide = _left_out(entries, counts, cores)
        if wide is not None:
            first = _admitted(entries, best, usable, cores, wide)
            seconds = {
                entry.job.id: entry.left / entry.curve.speedup(most)
                for entry, most in zip(entries, usable, strict=True)
                if entry.job.id in counts or entry is entries[wide]
            }
            paused = [entry for entry in entries if entry.job.id in counts.keys() - first.keys()]
            idle = 1.0 - sum(counts.values()) / cores
            if _goes_first(entries[wide], paused, seconds, 1.0 + weight * idle):
                counts = first
        _share_out(ranked, limits, counts, cores)
        return Decision(_steadied(ranked, counts, cores), _review_at(entries, counts, now))


def _chosen(
    entries: Sequence[_Entry], curves: Sequence[Curve], usable: Sequence[int], cores: int
) -> tuple[float, list[int]]:
    """Return the weight of the makespan, and the best number of cores of each job."""
    if not entries:
        return 0.0, []
    weight = makespan_weight([entry.length for entry in entries], cores)
    best = least_turnaround(curves, usable, cores, weight)
    if weight <= USUAL_WEIGHT:
        return weight, best
    as_long = [
        entry.rank[:-1] == before.rank[:-1] and entry.left <= _STEP * before.left
        for before, entry in pairwise(entries)
    ]
    return weight, evened(best, usable, [False, *as_long])


def _left_out(entries: Sequence[_Entry], counts: dict[str, int], cores: int) -> int | None:
    """Return the index of the first job that lacks cores although pauses would make room.

    None if all cores are in use, or if no pauses would make room for any job.
    """
    if sum(counts.values()) == cores:
        return None
    could = cores - sum(
        job.shape.min for job, *_ in entries if job.state == "running" and not _may_be_paused(job)
    )
    for index, (job, *_) in enumerate(entries):
        if job.id not in counts and job.shape.min <= could:
            return index
    return None


def _goes_first(
    wide: _Entry, others: Sequence[_Entry], seconds: Mapping[str, float], cost: float
) -> bool:
    """Return whether a job goes before others that leave cores idle.

    By Smith's rule ("Various optimizers for single-stage production", 1956) the others go
    first if they take less time than all of them would wait.

    Args:
        wide: The job.
        others: Jobs that could not run beside it.
        seconds: Run time of each job, by id.
        cost: Cost of a second in which only the others run; above 1, as all jobs end later.
    """
    if not others or any(other.rank[:-1] < wide.rank[:-1] for other in others):
        # One of the others is late or has a higher priority.
        return False
    longest = max(seconds[other.job.id] for other in others)
    return longest * cost > len(others) * seconds[wide.job.id]


def _share_out(
    ranked: Sequence[Job], limits: Sequence[int], counts: dict[str, int], cores: int
) -> None:
    """Share out evenly the cores that no job is known to benefit from yet."""
    if sum(counts.values()) < cores:
        # It is not known which starting job will be the first to compute.
        jobs = [
            replace(job, shape=Shape(counts[job.id], counts[job.id], max(counts[job.id], limit)))
            for job, limit in zip(ranked, limits, strict=True)
            if job.id in counts
        ]
        counts.update(fill(jobs, [1.0] * len(jobs), cores))


class _Entry(NamedTuple):
    """A job in the order in which jobs are served.

    Attributes:
        job: The job.
        curve: Speed-up curve.
        length: Total length, in seconds on one core.
        left: Remaining work, in seconds on one core.
        is_late: Whether the job has been without cores for too long.
        late_at: Time at which the job becomes late if it gets no cores.
        rank: Place in the order; lower goes first.
    """

    job: Job
    curve: Curve
    length: float
    left: float
    is_late: bool
    late_at: float
    rank: tuple[float, ...]


def _admitted(
    entries: Sequence[_Entry],
    best: Sequence[int],
    usable: Sequence[int],
    cores: int,
    first: int | None = None,
) -> dict[str, int]:
    """Return the cores of the jobs that run, by id: the best counts as far as they fit.

    Args:
        entries: All jobs, in order.
        best: Best number of cores of each job.
        usable: Maximum number of cores that each job can use.
        cores: Number of cores.
        first: Index of the job that goes before all others that are not late.
    """
    running = first_started(entry.job for entry in entries if entry.job.state == "running")
    counts = least([job for job in running if not _may_be_paused(job)], cores)
    free = cores - sum(counts.values())
    # Late jobs first, then those chosen to run, then any that fit beside them.
    order = sorted(
        range(len(entries)),
        key=lambda index: (not entries[index].is_late, index != first, not best[index]),
    )
    blocked = False
    for index in order:
        job, is_late = entries[index].job, entries[index].is_late
        if not free and not is_late:
            break
        have = counts.get(job.id, 0)
        if not have:
            if job.shape.min > free:
                blocked = blocked or is_late
                continue
            if blocked and not _may_be_paused(job):
                # This job could no longer make room.
                continue
        more = max(0, min(max(job.shape.min, best[index]) - have, free))
        counts[job.id] = have + more
        free -= more
    for (job, *_), most in zip(entries, usable, strict=True):
        if free and job.id in counts:
            more = max(0, min(free, most - counts[job.id]))
            counts[job.id] += more
            free -= more
    return counts


def _steadied(ranked: Sequence[Job], counts: dict[str, int], cores: int) -> dict[str, int]:
    """Return the current counts if they are nearly the same and use as many cores."""
    now = {job.id: present(job) for job in ranked if job.state == "running"}
    same = (
        now.keys() == counts.keys()
        and sum(now.values()) == sum(counts.values())
        and all(abs(now[name] - count) <= now[name] // _STICKY for name, count in counts.items())
    )
    return now if same else counts


def _starts_until(job: Job) -> float:
    """Return the run time until which a job that reports no steps yet may begin to do so."""
    return _STARTING_SECONDS if job.rates else _STARTING_SECONDS_OF_NEW_ONES


def _is_starting(job: Job) -> bool:
    """Return whether a job reports no steps yet, and has in earlier runs or may do so soon."""
    return job.steps_done is None and job.run_seconds < _starts_until(job)


def _is_ending(job: Job) -> bool:
    """Return whether all steps are done: the rest is short and runs on one core."""
    return steps_left(job) == 0.0


def _may_be_paused(job: Job) -> bool:
    return steps_left(job) is not None or job.expected_seconds is not None


def _ranked(jobs: Sequence[Job], prior: Curve, now: float) -> list[_Entry]:
    """Return late jobs, then by priority the shortest first, nearly equal ones by arrival."""
    return sorted([_entry(job, prior, now) for job in jobs], key=lambda entry: entry.rank)


def _entry(job: Job, prior: Curve, now: float) -> _Entry:
    curve, length, left, late_at, step = job.derived(_known, prior)
    # Independent of whether a job runs, so that a decision does not reverse itself.
    if now >= late_at:
        return _Entry(job, curve, length, left, True, late_at, (0.0, arrival(job)))
    return _Entry(job, curve, length, left, False, late_at, (1.0, -job.priority, step))


class _Known(NamedTuple):
    """Properties that follow from a job and the assumed speed-up curve.

    Attributes:
        curve: Speed-up curve.
        length: Total length, in seconds on one core.
        left: Remaining work, in seconds on one core.
        late_at: Time at which the job becomes late if it has no cores until then.
        step: Remaining work on a geometric scale.
    """

    curve: Curve
    length: float
    left: float
    late_at: float
    step: int


def _known(job: Job, prior: Curve) -> _Known:
    left = remaining_work(job, prior)
    patience = _PATIENCE_SECONDS + _PATIENCE_LENGTHS * (job.run_seconds + left)
    return _Known(
        fit(job.rates, prior),
        whole_work(job, left, prior),
        left,
        job.submitted + job.run_seconds + patience,
        geometric_step(left, _STEP),
    )


@lru_cache(maxsize=256)
def _prior(cores: int) -> Curve:
    return Curve(1.0, _USUAL_LOSS / max(1, cores))


def _review_at(entries: Sequence[_Entry], counts: dict[str, int], now: float) -> float | None:
    """Return when time alone will change which jobs run, or how; None if it will not."""
    times = [
        now + _starts_until(job) - job.run_seconds
        for job, *_ in entries
        if job.id in counts and _is_starting(job)
    ]
    waiting = [entry for entry in entries if entry.job.id not in counts]
    if waiting:
        # A job of unknown or exceeded length counts as longer the longer it runs.
        times += [
            now
            + (
                expected_left(job)
                or _STEP ** geometric_step(job.run_seconds, _STEP) - job.run_seconds
            )
            for job, *_ in entries
            if job.id in counts and steps_left(job) is None and _may_be_paused(job)
        ]
        times += [entry.late_at for entry in waiting if not entry.is_late]
    return max(min(times), now + _SHORTEST_REVIEW_SECONDS) if times else None
