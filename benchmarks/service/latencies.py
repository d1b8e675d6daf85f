# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Latencies of a service under measurement, as numbers to compare. Pure."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Latencies:
    """Latencies of a service.

    Attributes:
        requests: Number of requests.
        p50: Median, in seconds.
        p99: 99th percentile.
        within: Share of the windows of a second whose p99 was within the objective.
        training: Steps a second of all trainings together.
    """

    requests: int
    p50: float
    p99: float
    within: float
    training: float


def percentile(latencies: Sequence[float], share: float) -> float:
    """Return the least latency that this share of the requests did not exceed."""
    return sorted(latencies)[max(0, math.ceil(share * len(latencies)) - 1)]


def latencies(
    served: Sequence[tuple[float, float]], objective: float, training: float
) -> Latencies:
    """Return the numbers of a run.

    Args:
        served: Begin and latency of each request, in seconds; at least one.
        objective: Latency that the p99 must not exceed, in seconds.
        training: Steps a second of all trainings together.
    """
    windows: dict[int, list[float]] = defaultdict(list)
    for at, seconds in served:
        windows[math.floor(at)].append(seconds)
    kept = sum(percentile(each, 0.99) <= objective for each in windows.values())
    every = [seconds for _, seconds in served]
    return Latencies(
        len(served),
        percentile(every, 0.5),
        percentile(every, 0.99),
        kept / len(windows),
        training,
    )
