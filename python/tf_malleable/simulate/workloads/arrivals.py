# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Arrival times of generated jobs, in any unit of time."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from itertools import accumulate
from typing import Final

from tf_malleable.simulate.workloads.spec import Arrivals

_BURST: Final = 10
# Days in a workload. At noon, jobs arrive at 1.9 times the mean rate, at midnight at 0.1 times.
_DAYS: Final = 4
_SWING: Final = 0.9
# Halvings of an interval until it is as short as a rounding error.
_HALVINGS: Final = 50


def arrive(arrivals: Arrivals, jobs: int, rng: random.Random) -> tuple[list[float], float]:
    """Return the arrival time of each job, the first at 0, and the time that all of them cover.

    Args:
        arrivals: Kind of arrivals.
        jobs: Number of jobs, at least 1.
        rng: Source of the random numbers.
    """
    return _ARRIVING[arrivals](jobs, rng)


def _poisson(jobs: int, rng: random.Random) -> tuple[list[float], float]:
    """Return a Poisson process.

    Given their number, arrivals are uniformly distributed (Ross, "Introduction to Probability
    Models", on conditional arrival times).
    """
    gaps = [rng.expovariate(1.0) for _ in range(jobs)]
    return list(accumulate(gaps[:-1], initial=0.0)), sum(gaps)


def _bursts(jobs: int, rng: random.Random) -> tuple[list[float], float]:
    """Return a Poisson process of groups of jobs, whose sizes are geometrically distributed."""
    gaps = [
        rng.expovariate(1.0 / _BURST) if rng.random() * _BURST < 1.0 else 0.0 for _ in range(jobs)
    ]
    # The group after the last one belongs to the time that the jobs cover.
    gaps[-1] = rng.expovariate(1.0 / _BURST)
    return list(accumulate(gaps[:-1], initial=0.0)), sum(gaps)


def _daily(jobs: int, rng: random.Random) -> tuple[list[float], float]:
    """Return a Poisson process whose rate is a sine wave, by a change of its time scale."""
    times, total = _poisson(jobs, rng)
    moved = [_as_late(at / total) * total for at in times]
    return moved, total


def _as_late(part: float) -> float:
    """Return the time, 0 … 1, until which this part of the jobs is expected to arrive."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        turn = 2 * math.pi * _DAYS
        # Each day begins at midnight.
        if middle - _SWING * math.sin(turn * middle) / turn < part:
            low = middle
        else:
            high = middle
    return high if part > 0.0 else 0.0


_ARRIVING: Final[dict[Arrivals, Callable[[int, random.Random], tuple[list[float], float]]]] = {
    "poisson": _poisson,
    "bursts": _bursts,
    "daily": _daily,
}
