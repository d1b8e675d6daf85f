# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Labels for time axes in common units of time. All positions are seconds."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator, NullLocator

# Seconds. The shortest duration that a logarithmic axis shows.
SHORTEST: Final = 1e-3

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
_MOST_TICKS = 9
_UNITS = (("s", 1, 300), ("min", _MINUTE, 10_800), ("h", _HOUR, 4 * _DAY), ("d", _DAY, math.inf))

# Round durations from fine to coarse, in their units.
_GRADES = (
    ((1, 2, 5, 10, 20, 30), (1, 2, 5, 10, 20, 30), (1, 2, 5, 12), (1, 2, 5, 10, 20, 50, 100)),
    ((1, 3, 10, 30), (1, 3, 10, 30), (1, 3, 12), (1, 4, 10, 30, 100)),
    ((1, 10), (1, 10), (1, 6), (1, 10, 100)),
    ((1,), (1,), (1,), (1, 100)),
)
_BELOW_ONE_SECOND = ((1, 2, 5, 10, 20, 50, 100, 200, 500), (1, 10, 100), (1, 10, 100), (1, 30))
_LABELS_SIDE_BY_SIDE = 11
# Minimum factor that a logarithmic axis spans, so that it has ticks to read.
_LEAST_FACTOR = 10.0


def linear(axes: Axes, longest: float) -> None:
    """Label the horizontal axis with the time since the first arrival.

    Args:
        axes: Axes whose data are in seconds.
        longest: Last time in seconds, above 0.
    """
    unit, seconds = next((unit, seconds) for unit, seconds, most in _UNITS if longest <= most)
    locator = MaxNLocator(_MOST_TICKS, steps=[1, 2, 5, 10])
    ticks = [
        tick for tick in locator.tick_values(0, longest / seconds) if tick * seconds <= longest
    ]
    axes.set_xlim(0, longest * 1.01)
    axes.set_xticks([tick * seconds for tick in ticks], [f"{tick:.4g}" for tick in ticks])
    axes.tick_params(axis="x", labelbottom=True)
    axes.set_xlabel(f"time since the first arrival ({unit})", fontsize=9)


def logarithmic(axes: Axes, shortest: float, longest: float) -> None:
    """Give the horizontal axis a logarithmic scale of durations, each tick with its unit.

    Args:
        axes: Axes whose data are in seconds.
        shortest: Shortest duration in seconds, at least SHORTEST.
        longest: Longest duration in seconds, no shorter than that.
    """
    missing = max(1.0, _LEAST_FACTOR * shortest / longest)
    low, high = shortest / math.sqrt(missing) / 1.1, longest * math.sqrt(missing) * 1.1
    ticks = durations(low, high)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xticks([seconds for seconds, _ in ticks], [label for _, label in ticks])


def durations(low: float, high: float) -> list[tuple[float, str]]:
    """Return round durations within a range, with their labels; few enough to read.

    Args:
        low: Lower end of the range, in seconds; above 0.
        high: Upper end of the range, in seconds; above `low`.
    """
    least = (high / low) ** (1 / _LABELS_SIDE_BY_SIDE)
    for grade in range(len(_GRADES)):
        found = [(seconds, label) for seconds, label in _grade(grade) if low <= seconds <= high]
        if all(after / before >= least for (before, _), (after, _) in pairwise(found)):
            break
    return found


def rounded_up(seconds: float) -> tuple[float, str]:
    """Return the next longer round duration, in seconds, and its label."""
    longer = ((each, label) for each, label in _grade(0) if each >= seconds)
    return next(longer, (seconds, f"{seconds / _DAY:.4g} d"))


def _grade(grade: int) -> list[tuple[float, str]]:
    """Return round durations in seconds, ascending, and their labels; many in grade 0."""
    every = [(count / 1000, f"{count} ms") for count in _BELOW_ONE_SECOND[grade]]
    for (unit, seconds, _), counts in zip(_UNITS, _GRADES[grade], strict=True):
        every += [(float(count * seconds), f"{count} {unit}") for count in counts]
    return every
