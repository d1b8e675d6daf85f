# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A job as a policy sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tf_malleable.model.allocation import NO_GRANT, Grant
from tf_malleable.model.shape import Shape

JobState = Literal["waiting", "running", "paused"]


@dataclass(frozen=True)
class Rate:
    """A measured speed: so many steps a second with so many cores."""

    cores: int
    steps_per_second: float


@dataclass(frozen=True)
class Job:
    """What a policy may know of a job. Times are seconds on the caller's clock.

    Attributes:
        id: Never used for two jobs.
        shape: The cores it asks for.
        submitted: When it arrived.
        priority: Higher goes first.
        weight: Its share of the machine against other jobs' weights; above 0.
        state: ``"waiting"``: never had a core. ``"running"``: has a grant.
            ``"paused"``: had one and lost it.
        since: When it entered this state.
        grant: What it is granted now; empty unless running.
        started: When it first had a grant; None while waiting.
        run_seconds: How long it has run, all stretches together.
        used_cpus: CPUs it kept busy, or had threads waiting for, lately, 0 … ;
            None while not measured.
        steps_done: Training steps done, None if it reports none.
        steps_total: Steps it will have done at its end, None if unknown.
        rates: Measured speeds, one for each number of cores it ran with, those
            learned from earlier jobs of the same name included.
        expected_seconds: How long it will run in all, as the same command ran before;
            None if it never did.
    """

    id: str
    shape: Shape
    submitted: float
    priority: int = 0
    weight: float = 1.0
    state: JobState = "waiting"
    since: float = 0.0
    grant: Grant = NO_GRANT
    started: float | None = None
    run_seconds: float = 0.0
    used_cpus: float | None = None
    steps_done: float | None = None
    steps_total: float | None = None
    rates: tuple[Rate, ...] = ()
    expected_seconds: float | None = None
