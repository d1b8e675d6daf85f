# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Weighted max-min fair shares, within limits, that use every core."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_malleable.model import Job

# Shares that differ by less are equal.
_ROUNDING = 1e-6


def fill(jobs: Sequence[Job], weights: Sequence[float], cores: int) -> dict[str, int]:
    """Return cores by job id, proportional to weights, each within min … max.

    Weighted max-min fairness by water-filling (Bertsekas and Gallager, "Data
    Networks", 6.5.2): each job's share is a common level times its weight, clamped
    to its limits; the level is chosen so that all cores are used. Exact, in
    O(n log n): the search steps through the levels at which a job leaves its min or
    reaches its max. Shares are rounded down, and the remaining cores go to the jobs
    that lost the largest fractions; ties go to a job that already has the core, so
    that equal jobs do not swap.

    Args:
        jobs: Jobs that get cores; the sum of their min must not exceed `cores`.
        weights: Weight of each job, above 0.
        cores: Number of cores to share out; cores beyond the sum of max are left over.
    """
    usable = min(cores, sum(job.shape.max for job in jobs))
    level = _level(jobs, weights, usable)
    counts: dict[str, int] = {}
    lacking: list[tuple[int, bool, int]] = []
    for index, (job, weight) in enumerate(zip(jobs, weights, strict=True)):
        shape = job.shape
        share = min(max(level * weight, shape.min), shape.max)
        count = counts[job.id] = int(share + _ROUNDING)
        if count < shape.max:
            part = int((share - count) / _ROUNDING + 0.5)
            lacking.append((-part, len(job.grant.own) <= count, index))
    left = usable - sum(counts.values())
    for _, _, index in sorted(lacking)[:left]:
        counts[jobs[index].id] += 1
    return counts


def _level(jobs: Sequence[Job], weights: Sequence[float], usable: int) -> float:
    total = float(sum(job.shape.min for job in jobs))
    if total >= usable:
        return 0.0
    bends: list[tuple[float, float]] = []
    for job, weight in zip(jobs, weights, strict=True):
        bends.append((job.shape.min / weight, weight))
        bends.append((job.shape.max / weight, -weight))
    bends.sort()
    level = slope = 0.0
    for bend, change in bends:
        if total + slope * (bend - level) >= usable:
            return level + (usable - total) / slope if slope > 0 else level
        total += slope * (bend - level)
        level = bend
        slope += change
    return math.inf
