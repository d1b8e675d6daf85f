# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Core counts that minimise the mean turnaround of jobs sorted by length.

Running one job after another, the shortest first, is optimal if speed-ups are linear.
They are not, so several jobs get more done with the same cores. heSRPT (Berg, Vesilo and
Harchol-Balter, "heSRPT: Parallel scheduling to minimize mean slowdown", Performance
Evaluation, 2020) solves this in closed form for speed-ups of n^p and divisible cores. Its
argument also holds, as a recursion, for whole cores and any concave speed-ups: the sum
of turnarounds is linear in the remaining work x of the jobs, c_1 x_1 + … + c_m x_m. It
falls by m per second while there are m jobs, so the maximum over counts n of
c_1 s_1(n_1) + … + c_m s_m(n_m) is m. With c_1 … c_{m-1} known from the longer jobs, this
equation gives c_m. Assigning each core to the job where it adds most yields the maximum. On
two equal cores this is exact: two jobs share them if two cores are less than 1.5 times as
fast as one.

The makespan can be added to the sum, with a weight w. The sum then falls by m + w per second,
and that is the value of the maximum.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate, pairwise

from tf_malleable.policies.queues.speedup import Curve

# Bounds on the time of a decision; beyond them, jobs and cores are bundled.
_JOBS = 48
_CORES = 128


def least_turnaround(
    curves: Sequence[Curve], limits: Sequence[int], cores: int, makespan: float = 0.0
) -> list[int]:
    """Return the number of cores of each job, 0 for those that should wait.

    Args:
        curves: Speed-up curves, in ascending order of the jobs' remaining work.
        limits: Maximum number of cores each job can use, at least 1.
        cores: Number of cores to share out.
        makespan: Weight of the makespan relative to the turnaround of each job.
    """
    # Sampling every n-th job on a machine n times smaller gives the same problem.
    bundle = max(1, -(-len(curves) // _JOBS))
    share = max(1, cores // bundle)
    unit = max(1, -(-share // _CORES))
    samples = range(0, len(curves), bundle)
    sampled = [curves[i] for i in samples], [limits[i] for i in samples]
    counts = _solve(*sampled, share, unit, makespan / bundle)
    return [min(counts[i // bundle], limit) for i, limit in enumerate(limits)]


def _solve(
    curves: Sequence[Curve], limits: Sequence[int], cores: int, unit: int, makespan: float
) -> list[int]:
    units = cores // unit
    # Negated gain of each unit of cores, largest first, and the index of its job.
    gains: list[tuple[float, int]] = []
    for index in range(len(curves) - 1, -1, -1):
        falls = len(curves) - index + makespan
        most = min(units, -(-limits[index] // unit))
        speeds, drops = _speeds(curves[index], most, unit)
        values = [0.0, *accumulate([-gain for gain, _ in gains])]
        values += [values[-1]] * (units + 1 - len(values))
        # With n units of cores for this job, the longer ones share the rest.
        rest = values[units - most : units]
        rest.reverse()
        price = min([(falls - value) / speed for value, speed in zip(rest, speeds, strict=True)])
        gains += [(price * drop, index) for drop in drops]
        gains.sort()
        del gains[units:]
    counts = [0] * len(curves)
    for _, index in gains:
        counts[index] += unit
    return counts


@lru_cache(maxsize=4096)
def _speeds(curve: Curve, most: int, unit: int) -> tuple[list[float], list[float]]:
    """Return speed-ups with 1 … `most` units, and how much each unit adds, negated."""
    speeds = curve.speedups(range(unit, most * unit + 1, unit))
    return speeds, [before - after for before, after in pairwise([0.0, *speeds])]
