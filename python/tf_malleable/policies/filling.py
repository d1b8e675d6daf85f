# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shares in proportion to weights, within limits, that use every core."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tf_malleable.model import Job

# Shares that differ by less are equal.
_ROUNDING = 1e-6


def fill(jobs: Sequence[Job], weights: Sequence[float], cores: int) -> dict[str, int]:
    """Return cores by job id: in proportion to weights, each within min … max.

    Weighted max-min fairness by water-filling (Bertsekas and Gallager, "Data
    Networks", 6.5.2): the share of each job is the same level times its weight,
    cut to its limits, and the level is such that all cores are used. Exact in
    O(n log n): the level is found by walking along the levels at which a job
    leaves its min or reaches its max. Of the parts of cores that remain, whole
    cores go to the jobs that lack the largest part; in a tie to one that has that
    core already, so that equal jobs do not swap.

    Args:
        jobs: Those that get cores; the sum of min must not exceed the cores.
        weights: One for each, above 0.
        cores: To be shared out; what is above the sum of max is left over.
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
