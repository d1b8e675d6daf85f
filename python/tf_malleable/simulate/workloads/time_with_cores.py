# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cores of a job of the history over time, and the work it did with them. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tf_malleable.api.schema.history import JobRecord, Span
from tf_malleable.simulate.engine.curves import Speedup
from tf_malleable.simulate.engine.job import ON_A_LENT_CPU


@dataclass(frozen=True)
class CoreTime:
    """A number of seconds with a number of cores; 0 cores if the job lent all of them."""

    seconds: float
    cores: int


def stretches(job: JobRecord, spans: Iterable[Span]) -> tuple[CoreTime, ...]:
    """Return a job's time with cores, first to last.

    Without spans it is derived from the mean of the job's cores, so that both sums are right.

    Args:
        job: The job.
        spans: All its spans, in any order.
    """
    running = sorted(
        (span for span in spans if span.state == "running" and span.end > span.begin),
        key=lambda span: span.begin,
    )
    if running:
        return tuple(CoreTime(span.end - span.begin, len(span.cpus)) for span in running)
    seconds = job.service_seconds
    if seconds <= 0:
        return ()
    mean = job.core_seconds / seconds
    few = int(mean)
    more = (mean - few) * seconds
    found = CoreTime(seconds - more, few), CoreTime(more, few + 1)
    return tuple(stretch for stretch in found if stretch.seconds > 0)


def between(time: Iterable[CoreTime], start: float, end: float) -> tuple[CoreTime, ...]:
    """Return the stretches without the first `start` and the last `end` seconds."""
    return _without_first(_without_first(tuple(time), start)[::-1], end)[::-1]


def _without_first(time: tuple[CoreTime, ...], seconds: float) -> tuple[CoreTime, ...]:
    left = []
    for stretch in time:
        cut = min(seconds, stretch.seconds)
        seconds -= cut
        if stretch.seconds > cut:
            left.append(CoreTime(stretch.seconds - cut, stretch.cores))
    return tuple(left)


def work(time: Iterable[CoreTime], idle: float, curve: Speedup) -> float:
    """Return the work done in this time, in seconds on one core.

    The idle times are unknown; a job that lent all its cores was most likely idle then. In the
    remaining time, idleness is spread evenly.

    Args:
        time: The time between its start and its end.
        idle: Seconds of this time in which the job waited for input.
        curve: Speed-up curve.
    """
    time = tuple(time)
    lending = sum(stretch.seconds for stretch in time if not stretch.cores)
    having = sum(stretch.seconds for stretch in time if stretch.cores)
    awake = max(0.0, lending - idle)
    share = 1.0 - min(1.0, max(0.0, idle - lending) / having) if having else 0.0
    done = sum(stretch.seconds * curve.speedup(stretch.cores) for stretch in time if stretch.cores)
    return share * done + awake * ON_A_LENT_CPU * curve.speedup(1)
