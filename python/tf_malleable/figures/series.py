# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Curves of a history: turnaround, utilisation and queue, independent of drawing."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import count, pairwise, takewhile
from typing import Final

from tf_malleable.api.schema.history import History
from tf_malleable.figures.timeline import Row, load

# Maximum number of points of a curve; a panel has too few pixels to show more.
MOST_POINTS: Final = 500

# Pairs of a position and the value from there on.
Steps = list[tuple[float, float]]


def turnarounds(history: History) -> list[float]:
    """Return the turnaround of each job that ended, in seconds, ascending."""
    return sorted(job.total_seconds for job in history.jobs)


def distribution(values: Sequence[float], most: int = MOST_POINTS) -> Steps:
    """Return the empirical distribution function: from each value on, the share not above it.

    Args:
        values: Values in ascending order.
        most: Maximum number of values to keep, at equal distances of rank, with the
            smallest and the largest.
    """
    last = len(values) - 1
    kept = min(len(values), max(2, most))
    shown = {values[index * last // max(1, kept - 1)] for index in range(kept)}
    return [(value, bisect_right(values, value) / len(values)) for value in sorted(shown)]


def utilisation(rows: Sequence[Row], cores: int) -> Steps:
    """Return the granted cores divided by all cores, from the first arrival to the last end.

    Args:
        rows: The jobs; times are in seconds since the first arrival.
        cores: Total number of cores.

    Raises:
        ValueError: There are no cores.
    """
    if cores < 1:
        raise ValueError(f"there must be at least 1 core to share out, not {cores}")
    return _to_the_end(((time, granted / cores) for time, granted in load(rows)), rows)


def queue(rows: Sequence[Row]) -> Steps:
    """Return the number of jobs without cores over time, from the first arrival to the last end.

    These are the jobs that are waiting or paused.

    Args:
        rows: The jobs; times are in seconds since the first arrival.
    """
    changes: defaultdict[float, int] = defaultdict(int)
    for row in rows:
        for stretch in row.stretches:
            if stretch.state != "running":
                changes[stretch.begin] += 1
                changes[stretch.end] -= 1
    length, steps = 0, []
    for time, change in sorted(changes.items()):
        length += change
        steps.append((time, float(length)))
    return _to_the_end(steps, rows)


def averaged(steps: Steps, seconds: float) -> Steps:
    """Return the means of steps over intervals of equal length; the area below stays the same.

    Args:
        steps: Steps in ascending order of time, the first at 0.
        seconds: Length of each interval, above 0; the last one may be shorter.
    """
    if not steps:
        return []
    end = steps[-1][0]
    edges = [*takewhile(lambda edge: edge < end, (seconds * index for index in count())), end]
    result, index = [], 0
    for left, right in pairwise(edges):
        area, now = 0.0, left
        while now < right:
            while steps[index + 1][0] <= now:
                index += 1
            until = min(right, steps[index + 1][0])
            area += (until - now) * steps[index][1]
            now = until
        result.append((left, area / (right - left)))
    return [*result, steps[-1]]


def last_end(rows: Sequence[Row]) -> float:
    """Return the end of the last job, in seconds since the first arrival; 0 without jobs."""
    return max((row.stretches[-1].end for row in rows if row.stretches), default=0.0)


def _to_the_end(steps: Iterable[tuple[float, float]], rows: Sequence[Row]) -> Steps:
    """Return steps that begin at the first arrival and end with 0 at the last end."""
    return sorted({0.0: 0.0, last_end(rows): 0.0, **dict(steps)}.items()) if rows else []
