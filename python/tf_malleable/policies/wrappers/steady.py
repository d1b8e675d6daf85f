# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Steadying: a job that others have had resized again and again does not grow for a while.

Arrivals, ends, settings and naps of one user's jobs change the cores of another's, as often as that
user likes. Losing cores cannot wait. Getting them can, so a job is resized about ten times in half
a minute at most.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tf_malleable.model import Job, Shape

MOST_UNREST: Final = 6.0
"""Maximum number of resizes lately with which a running job grows."""


def steadied(jobs: Sequence[Job], now: float) -> tuple[list[Job], float | None]:
    """Return the jobs, restless ones unable to grow, and when the first of these may grow again."""
    found: list[Job] = []
    first: float | None = None
    for job in jobs:
        if job.unrest > MOST_UNREST and job.state == "running":
            calm_at = job.calm_at(MOST_UNREST)
            own = max(job.shape.min, len(job.grant.own))
            if now < calm_at and own < job.shape.max:
                first = calm_at if first is None else min(first, calm_at)
                job = replace(job, shape=Shape(job.shape.min, min(job.shape.preferred, own), own))
        found.append(job)
    return found, first
