# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Speed-up curves, fitted to the few measured speeds.

The Universal Scalability Law (Gunther, "A General Theory of Computational
Scalability Based on Rational Functions", 2008) as seconds for a step on n cores:
(one + contention · (n - 1) + coherence · n · (n - 1)) / n. Without coherence it is
Amdahl's law (1967). It is linear in its three parameters, so least squares has a closed
form and a policy can fit thousands of jobs in one decision.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from tf_malleable.model import Rate

# Optimistic about unknown jobs: policies then try more cores, and measure.
_PRIOR_CONTENTION = 0.05
# Deviations from Amdahl's law up to this are treated as noise.
_NOISE = 0.05
# Steps per second outside this range are errors, and would dominate the fit.
_SLOWEST, _FASTEST = 1e-9, 1e9
# Below this, relative to its terms, a determinant is rounding error.
_SINGULAR = 1e-13


class Curve(NamedTuple):  # Hashed in every decision.
    """Seconds per step as a function of the number of cores.

    Attributes:
        one: Seconds on one core; above 0.
        contention: Part of `one` that more cores do not shorten, in seconds.
        coherence: Seconds of work added by each pair of cores.
    """

    one: float
    contention: float
    coherence: float = 0.0

    def seconds(self, cores: float) -> float:
        """Return the seconds per step on `cores` cores, at least 1."""
        others = cores - 1
        return (self.one + others * (self.contention + self.coherence * cores)) / cores

    def speedup(self, cores: float) -> float:
        """Return the speed relative to one core; 0 on no cores."""
        return self.one / self.seconds(cores) if cores > 0 else 0.0

    def speedups(self, counts: Iterable[int]) -> list[float]:
        """Return the speed-up for each number of cores, all at least 1; faster than one by one."""
        one, contention, coherence = self.one, self.contention, self.coherence
        return [n * one / (one + (n - 1) * (contention + coherence * n)) for n in counts]

    def fastest(self, limit: int) -> int:
        """Return the smallest number of cores, at most `limit`, with the highest speed."""
        if self.contention >= self.one:
            return 1
        if self.coherence <= 0.0:
            return limit
        peak = min(float(limit), math.sqrt((self.one - self.contention) / self.coherence))
        below = max(1, int(peak))
        return min(limit, below + (self.seconds(below + 1) < self.seconds(below)))


PRIOR = Curve(1.0, _PRIOR_CONTENTION)


# Speeds change less often than decisions are made.
@lru_cache(maxsize=16384)
def fit(rates: tuple[Rate, ...], prior: Curve = PRIOR) -> Curve:
    """Return the curve that fits measured speeds best, in relative error.

    Without measurements it is `prior`, by default an optimistic curve; with one number of cores
    it is `prior` scaled to that speed. Two or three numbers of cores give Amdahl's law. The
    Universal Scalability Law is used only with four or more, if Amdahl's law misses a speed by
    more than 5 %, and by twice as much as it does: otherwise it would find coherence in noise.
    Speeds outside 1e-9 … 1e9 steps per second are ignored.
    """
    points = [
        (rate.cores, rate.steps_per_second)
        for rate in rates
        if rate.cores >= 1 and _SLOWEST <= rate.steps_per_second <= _FASTEST
    ]
    counts = len({cores for cores, _ in points})
    if counts == 0:
        return prior
    if counts == 1:
        speed = sum(speed for _, speed in points) / len(points)
        scale = 1.0 / (speed * prior.seconds(points[0][0]))
        return Curve(*(scale * part for part in prior))
    amdahl = _amdahl(points)
    if counts <= 3 or _worst_miss(amdahl, points) <= _NOISE:
        return amdahl
    universal = _universal(points)
    if universal is None or _worst_miss(universal, points) > _worst_miss(amdahl, points) / 2.0:
        return amdahl
    return universal


def _worst_miss(curve: Curve, points: Sequence[tuple[int, float]]) -> float:
    one, contention, coherence = curve.one, curve.contention, curve.coherence
    return max(
        [abs(speed * (one + (n - 1) * (contention + coherence * n)) / n - 1) for n, speed in points]
    )


def _amdahl(points: Sequence[tuple[int, float]]) -> Curve:
    """Minimise the sum of (speed · seconds - 1)², 0 ≤ contention ≤ one."""
    aa = ab = bb = a1 = b1 = 0.0
    for cores, speed in points:
        share = speed / cores
        aa += speed * speed
        ab += speed * share
        bb += share * share
        a1 += speed
        b1 += share
    determinant = aa * bb - ab * ab
    if determinant <= _SINGULAR * aa * bb:
        return Curve(a1 / aa, a1 / aa)
    fixed = (a1 * bb - b1 * ab) / determinant
    divided = (b1 * aa - a1 * ab) / determinant
    if fixed < 0:
        return Curve(b1 / bb, 0.0)
    if divided < 0:
        return Curve(a1 / aa, a1 / aa)
    return Curve(fixed + divided, fixed)


def _universal(points: Sequence[tuple[int, float]]) -> Curve | None:
    """Minimise the same with all three parameters; None if the result is no valid curve."""
    rows = [(v / n, v * (n - 1) / n, v * (n - 1.0)) for n, v in points]
    solution = _least_squares(rows, (0, 1, 2))
    if solution is not None and solution[1] < 0:
        pair = _least_squares(rows, (0, 2))
        solution = None if pair is None else [pair[0], 0.0, pair[1]]
    if solution is None or solution[0] <= 0 or solution[2] < 0:
        return None
    return Curve(*solution)


def _least_squares(
    rows: Sequence[tuple[float, ...]], columns: tuple[int, ...]
) -> list[float] | None:
    """Return the column factors that bring every row sum close to 1; None if singular."""
    normal = [
        [sum(row[i] * row[j] for row in rows) for j in columns] + [sum(row[i] for row in rows)]
        for i in columns
    ]
    size = len(columns)
    for pivot in range(size):
        top = normal[pivot]
        column = columns[pivot]
        if top[pivot] <= _SINGULAR * sum(row[column] * row[column] for row in rows):
            return None
        for other in range(size):
            if other != pivot:
                factor = normal[other][pivot] / top[pivot]
                normal[other] = [a - factor * b for a, b in zip(normal[other], top, strict=True)]
    return [normal[i][size] / normal[i][i] for i in range(size)]
