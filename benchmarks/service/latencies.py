# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Latencies of a service under measurement, as numbers to compare. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

Served = Sequence[tuple[float, float]]
"""Begin and latency of each request, in seconds."""

_WINDOW_SECONDS = 1.0
# Resolution of the time that it takes to keep an objective again.
_STEP_SECONDS = 0.05


@dataclass(frozen=True)
class Latencies:
    """Latencies of a service.

    Attributes:
        requests: Number of requests.
        p50: Median, in seconds.
        p99: 99th percentile.
        within: Share of the windows of a second whose p99 was within the objective.
        settled: Longest time after a rise of the load from which on each window of a second was
            within the objective; None if it rose never, infinite if it was not kept until the end.
    """

    requests: int
    p50: float
    p99: float
    within: float
    settled: float | None


def percentile(latencies: Sequence[float], share: float) -> float:
    """Return the least latency that this share of the requests did not exceed."""
    return sorted(latencies)[max(0, math.ceil(share * len(latencies)) - 1)]


def latencies(served: Served, objective: float, rises: Sequence[tuple[float, float]]) -> Latencies:
    """Return the numbers of a run.

    Args:
        served: At least one request.
        objective: Latency that the p99 must not exceed, in seconds.
        rises: Begin and end of the times in which the load is high after it was low.
    """
    windows: dict[int, list[float]] = defaultdict(list)
    for at, seconds in served:
        windows[math.floor(at)].append(seconds)
    kept = sum(percentile(each, 0.99) <= objective for each in windows.values())
    every = [seconds for _, seconds in served]
    settled = [_settled(served, objective, begin, end) for begin, end in rises]
    return Latencies(
        len(served),
        percentile(every, 0.5),
        percentile(every, 0.99),
        kept / len(windows),
        max(settled, default=None),
    )


def _settled(served: Served, objective: float, begin: float, end: float) -> float:
    settled = 0.0
    for offset in _offsets(end - begin):
        low = begin + offset
        window = [seconds for at, seconds in served if low <= at < low + _WINDOW_SECONDS]
        if window and percentile(window, 0.99) > objective:
            settled = offset + _STEP_SECONDS
    return settled if settled + _WINDOW_SECONDS <= end - begin else math.inf


def _offsets(seconds: float) -> Iterator[float]:
    for number in range(math.floor((seconds - _WINDOW_SECONDS) / _STEP_SECONDS) + 1):
        yield number * _STEP_SECONDS
