# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Remaining work of a job, estimated from its steps and earlier runs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median_low

from tf_malleable.model import Job
from tf_malleable.policies.queues.speedup import PRIOR, Curve, fit

# Assumed length of an unknown job. TensorFlow alone takes seconds to start, and a job that is
# paused for one that turns out to be longer finishes late. Among values of 8 to 45 s, 30 s was
# best in simulations with a start of 5 s.
USUAL_SECONDS = 30.0


def remaining_work(job: Job, prior: Curve = PRIOR, usual_seconds: float = USUAL_SECONDS) -> float:
    """Return the remaining work in seconds on one core; if unknown, the run time so far.

    Args:
        job: The job.
        prior: Assumed speed-up curve while the job's is unknown.
        usual_seconds: Length assumed for a job of unknown length until it has run for longer.
    """
    steps = steps_left(job)
    if steps is not None:
        return steps * fit(job.rates, prior).one
    return expected_left(job) or max(usual_seconds, job.run_seconds)


def remaining_seconds(job: Job) -> float:
    """Return the seconds until a running job ends if its number of cores stays the same."""
    steps = steps_left(job)
    if steps is not None:
        return steps * fit(job.rates).seconds(max(1, len(job.grant.own)))
    return expected_left(job) or max(USUAL_SECONDS, job.run_seconds)


def expected_left(job: Job) -> float | None:
    """Return the seconds left of the expected run time; None if unknown or exceeded."""
    if job.expected_seconds is None or job.run_seconds >= job.expected_seconds:
        return None
    return job.expected_seconds - job.run_seconds


def steps_left(job: Job) -> float | None:
    """Return the number of remaining steps; None if it or the speed is unknown."""
    if job.steps_done is None or job.steps_total is None or not job.rates:
        return None
    return max(0.0, job.steps_total - job.steps_done)


def usual_seconds(jobs: Sequence[Job]) -> float | None:
    """Return the median of the known run times, in seconds; None if none is known."""
    known = [job.expected_seconds for job in jobs if job.expected_seconds is not None]
    return median_low(known) if known else None


def geometric_step(seconds: float, factor: float) -> int:
    """Return the index of a duration on a geometric scale; 0 for less than a second."""
    return 0 if seconds < 1.0 else 1 + int(math.log(seconds) / math.log(factor))
