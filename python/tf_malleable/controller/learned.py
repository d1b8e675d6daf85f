# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Speeds of earlier jobs of one name: what the next one of that name begins with."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from tf_malleable.model import Rate

_FADING = 0.7


@dataclass(frozen=True)
class Learned:
    """A speed, and how much was seen of it.

    Attributes:
        cores: The number of cores it is about.
        steps_per_second: Weighted mean of all runs.
        weight: Sum of the runs' weights, at least 1.
    """

    cores: int
    steps_per_second: float
    weight: float


def blend(known: Iterable[Learned], rates: Iterable[Rate]) -> tuple[Learned, ...]:
    """Return what is known after one more run, fewest cores first.

    An exponentially weighted mean for each number of cores: a run counts 0.7 times
    as much as the next one with that number. So the newest of many runs counts
    30 %, the ten newest together 97 %, and the first runs are a nearly plain mean
    instead of being dominated by the very first (Brown, "Smoothing, Forecasting
    and Prediction", 1963, with the weights normalised).

    Args:
        known: From before, each number of cores at most once.
        rates: Measured in the run. Those that are not positive finite numbers
            say nothing and are left out.
    """
    speeds = {speed.cores: speed for speed in known}
    for rate in rates:
        speed = rate.steps_per_second
        if not (math.isfinite(speed) and speed > 0):
            continue
        old = speeds.get(rate.cores)
        faded = 0.0 if old is None else old.weight * _FADING
        if old is not None:
            # As a step from the old mean, so that it stays between the two.
            speed = old.steps_per_second + (speed - old.steps_per_second) / (faded + 1)
        speeds[rate.cores] = Learned(rate.cores, speed, faded + 1)
    return tuple(speeds[cores] for cores in sorted(speeds))
