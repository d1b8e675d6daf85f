# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Makespan of the present jobs, and how much it grows with a second of a job's work.

If no other job arrived, all could end at the least time C at which the cores suffice that each job
needs to do its work in C, and no earlier; a job that takes C even with all cores that it can use
decides it alone (Błażewicz, Machowiak, Węglarz, Kovalyov and Trystram, "Scheduling malleable tasks
on parallel processors to minimize the makespan", Annals of Operations Research, 2004). The
derivative of C by a job's work is its shadow price: the higher, the worse a job uses the cores
that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tf_malleable.policies.queues.speedup import Curve
from tf_malleable.policies.queues.turnaround import bundle_size

# Newton's method ends at this relative error; for jobs of all lengths, a few rounds are enough.
_EXACT = 1e-6
_ROUNDS = 30
# Then a factor is within 3 % of the range that it was found in.
_HALVINGS = 5
# A job that is not faster with more cores would need infinitely many.
_MOST_FIXED = 0.99


def shadow_prices(
    work: Sequence[float], curves: Sequence[Curve], limits: Sequence[int], cores: int
) -> list[float]:
    """Return how many seconds the makespan grows with a second of each job's work on one core.

    Args:
        work: Remaining work of each job in seconds on one core, in ascending order.
        curves: Speed-up curves.
        limits: Number of cores with which each job is fastest.
        cores: Number of cores.
    """
    bundle = bundle_size(len(work))
    # From the longest on, which may decide alone.
    rows = [
        (seconds, curve.seconds(most) / curve.one, _fixed(curve, most))
        for seconds, curve, most in zip(
            work[::-bundle], curves[::-bundle], limits[::-bundle], strict=True
        )
    ]
    longest = end = max((seconds * fastest for seconds, fastest, _ in rows), default=0.0)
    if not longest:
        return [0.0] * len(work)
    # Newton's method: what is needed is convex in the end, and so approached from below.
    for _ in range(_ROUNDS):
        needs = [_need(seconds, fixed, end) for seconds, _, fixed in rows]
        missing = sum(need for need, _ in needs) - cores / bundle
        # What is needed depends on the quotient of work and end alone.
        falls = sum(row[0] * more for row, (_, more) in zip(rows, needs, strict=True)) / end
        if missing <= _EXACT * cores / bundle:
            break
        end += missing / falls
    if end == longest:
        found = [fastest if seconds * fastest == longest else 0.0 for seconds, fastest, _ in rows]
    else:
        found = [more / (bundle * falls) for _, more in needs]
    return [price for price in found for _ in range(bundle)][: len(work)][::-1]


def progress(growths: Iterable[float], speeds: Iterable[float]) -> float:
    """Return by how many seconds the makespan falls per second in which jobs run at these speeds.

    Args:
        growths: How much the makespan grows with a second of each job's work.
        speeds: Speed of each job relative to one core.
    """
    return sum(growth * speed for growth, speed in zip(growths, speeds, strict=True))


def equal_speeds(curves: Sequence[Curve], limits: Sequence[int], cores: int) -> list[float]:
    """Return the speed of each job if all have equal shares of the cores, parts of one included.

    Args:
        curves: Speed-up curves.
        limits: Number of cores with which each job is fastest, and of which it has no more.
        cores: Number of cores.
    """
    share = free = float(cores)
    for jobs, limit in zip(range(len(limits), 0, -1), sorted(limits), strict=True):
        share = free / jobs
        if limit > share:
            break
        free -= limit
    return [
        curve.speedup(min(share, limit)) if share > 1.0 else share
        for curve, limit in zip(curves, limits, strict=True)
    ]


def least_enough(is_enough: Callable[[float], bool], most: float) -> float:
    """Return about the least factor up to `most` that is enough; `most` if none is.

    It is above the least by a tenth at most, or by 1/32 if it is below 1.

    Args:
        is_enough: Whether a factor is; 0 is not, and if one is, so are those above. Where that is
            not so, the factor is enough, but may not be the least.
        most: Highest factor.
    """
    low, high = 0.0, min(1.0, most)
    while not is_enough(high):
        if high == most:
            return most
        low, high = high, min(4.0 * high, most)
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        low, high = (low, middle) if is_enough(middle) else (middle, high)
    return high


def _need(seconds: float, fixed: float, end: float) -> tuple[float, float]:
    """Return the cores that a job needs to end then, and how many more for a second of work."""
    if seconds <= end:  # One core for a part of the time.
        return seconds / end, 1.0 / end
    spare = end - seconds * fixed
    # A square of a tiny number would be 0.
    return seconds * (1.0 - fixed) / spare, (1.0 - fixed) / spare * (end / spare)


def _fixed(curve: Curve, most: int) -> float:
    """Return the part of the work that more cores do not shorten, by Amdahl's law up to `most`."""
    return min(_MOST_FIXED, (most * curve.seconds(most) / curve.one - 1.0) / max(1, most - 1))
