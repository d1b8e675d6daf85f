# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Prices of jobs: how much the sum of turnarounds falls with a second of a job's work.

Running one job after another, the shortest first, is optimal if speed-ups are linear.
They are not, so several jobs get more done with the same cores. heSRPT (Berg, Vesilo and
Harchol-Balter, "heSRPT: Parallel scheduling to minimize mean slowdown", Performance
Evaluation, 2020) solves this in closed form for speed-ups of n^p and divisible cores. Its
argument also holds, as a recursion, for whole cores and any concave speed-ups: the sum
of turnarounds is linear in the remaining work x of the jobs, c_1 x_1 + … + c_m x_m. It
falls by m per second while there are m jobs, so the maximum over counts n of
c_1 s_1(n_1) + … + c_m s_m(n_m) is m. With c_1 … c_{m-1} known from the longer jobs, this
equation gives c_m, the price of that job. Assigning each core to the job where it adds most
yields the maximum. On two equal cores this is exact: two jobs share them if two cores are less
than 1.5 times as fast as one.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

from tf_malleable.policies.queues.speedup import Curve

# Bounds on the time of a decision; beyond them, jobs and cores are bundled.
_JOBS = 48
_CORES = 128


def bundle_size(jobs: int) -> int:
    """Return how many jobs, in order, are taken for one, so that a decision takes bounded time."""
    return max(1, -(-jobs // _JOBS))


def prices(curves: Sequence[Curve], limits: Sequence[int], cores: int) -> list[float]:
    """Return the price of each job, above 0: turnaround per second of work.

    Args:
        curves: Speed-up curves, in ascending order of the jobs' remaining work.
        limits: Maximum number of cores each job can use, at least 1.
        cores: Number of cores to share out.
    """
    # Every n-th job, with the longest one, on a machine n times smaller gives the same problem.
    bundle = bundle_size(len(curves))
    share = max(1, cores // bundle)
    unit = max(1, -(-share // _CORES))
    found = _solve(curves[::-bundle][::-1], limits[::-bundle][::-1], share, unit)
    return [price for price in found[::-1] for _ in range(bundle)][: len(curves)][::-1]


def hand_out(
    curves: Sequence[Curve],
    limits: Sequence[int],
    cores: int,
    weights: Sequence[float],
    odds: Sequence[float] | None = None,
    arrivals: Sequence[float] | None = None,
) -> list[int]:
    """Return the number of cores of each job: each core goes where it adds most.

    Args:
        curves: Speed-up curves.
        limits: Maximum number of cores each job can use.
        cores: Number of cores to share out.
        weights: Weight of each job's speed; of equal ones, if there are too few cores, earlier
            jobs go first.
        odds: Probability that a job can use more than one core; None if all can.
        arrivals: Times of arrival; where a core adds as much to two jobs, the earlier one gets it.
            None if they are in order.
    """
    counts = [0] * len(curves)
    speeds = [1.0] * len(curves)
    # The first core makes each job as fast as on one core; only so many jobs can get one.
    first = sorted(range(len(curves)), key=weights.__getitem__, reverse=True)[:cores]
    # Nobody loses a core to a newcomer of which nothing else is known.
    queue = [(-weights[index], arrivals[index] if arrivals else 0.0, index) for index in first]
    heapq.heapify(queue)
    free = cores
    while free and queue:
        _, arrived, index = queue[0]
        counts[index] += 1
        free -= 1
        count, curve = counts[index], curves[index]
        gain = 0.0
        if count < limits[index]:
            speed = curve.speedup(count + 1)
            gain = weights[index] * (speed - speeds[index])
            speeds[index] = speed
            gain *= 1.0 if odds is None else odds[index]
        if gain > 0.0:
            heapq.heapreplace(queue, (-gain, arrived, index))
        else:
            heapq.heappop(queue)
    return counts


def elasticity(curves: Sequence[Curve], limits: Sequence[int], cores: int) -> float:
    """Return how much more all cores do if there are more jobs, relatively: 0 to 1; 0 of none.

    With one more of n jobs like these, they do a part e / n more, as fewer cores a job are more
    efficient. What they do is homogeneous in jobs and cores, so by Euler's theorem e is 1 less
    what a part more of all cores would add.

    Args:
        curves: Speed-up curves.
        limits: Maximum number of cores each job can use, at least 1.
        cores: Number of cores that do as much as they can.
    """
    if not 0 < len(curves) <= cores:
        return 0.0
    counts = hand_out(curves, limits, cores, [1.0] * len(curves))
    each = list(zip(curves, counts, limits, strict=True))
    speed = sum([curve.speedup(count) for curve, count, _ in each])
    gains = [
        curve.speedup(count + 1) - curve.speedup(count)
        for curve, count, most in each
        if count < most
    ]
    return max(0.0, 1.0 - cores * max([0.0, *gains]) / speed)


def _solve(curves: Sequence[Curve], limits: Sequence[int], cores: int, unit: int) -> list[float]:
    units = cores // unit
    found = [0.0] * len(curves)
    # Negated gain of each unit of cores, largest first.
    gains: list[float] = []
    for index in range(len(curves) - 1, -1, -1):
        jobs = len(curves) - index
        most = min(units, -(-limits[index] // unit))
        speeds, drops = _speeds(curves[index], most, unit)
        values = [0.0, *accumulate([-gain for gain in gains])]
        values += [values[-1]] * (units + 1 - len(values))
        # With n units of cores for this job, the longer ones share the rest.
        rest = values[units - most : units]
        rest.reverse()
        price = min([(jobs - value) / speed for value, speed in zip(rest, speeds, strict=True)])
        found[index] = price
        gains += [price * drop for drop in drops]
        gains.sort()
        del gains[units:]
    return found


@lru_cache(maxsize=4096)
def _speeds(curve: Curve, most: int, unit: int) -> tuple[list[float], list[float]]:
    """Return speed-ups with 1 … `most` units, and how much each unit adds, negated."""
    speeds = curve.speedups(range(unit, most * unit + 1, unit))
    return speeds, [before - after for before, after in pairwise([0.0, *speeds])]
