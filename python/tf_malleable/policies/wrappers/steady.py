# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Steadying: a job that others have had resized again and again does not grow for a while.

Arrivals, ends, settings and naps of one user's jobs change the cores of another's, as often as that
user likes. Losing cores cannot wait. Getting them can.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from tf_malleable.model import Job, Shape

MOST_UNREST: Final = 6.0
"""Maximum number of resizes lately with which a running job grows beside other users' jobs."""

_MOST_ALONE: Final = 18.0
"""The same without them; naps of the user's own jobs, which are worth lending, cause fewer."""


def steadied(
    jobs: Sequence[Job], now: float, *, several_users: bool
) -> tuple[list[Job], float | None]:
    """Return the jobs, restless ones unable to grow, and when the first of these may grow again.

    Args:
        jobs: Jobs that a policy decides for.
        now: Time in seconds.
        several_users: True if these and others are jobs of more than one user.
    """
    found: list[Job] = []
    first: float | None = None
    most = MOST_UNREST if several_users else _MOST_ALONE
    for job in jobs:
        # A service with an objective needs cores at once, and gives them up slowly.
        if job.unrest > most and job.state == "running" and job.load is None:
            calm_at = job.calm_at(most)
            own = max(job.shape.min, len(job.grant.own))
            if now < calm_at and own < job.shape.max:
                first = calm_at if first is None else min(first, calm_at)
                job = replace(job, shape=Shape(job.shape.min, min(job.shape.preferred, own), own))
        found.append(job)
    return found, first
