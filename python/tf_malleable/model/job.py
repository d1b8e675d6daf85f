# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A job as a policy sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from tf_malleable.model.allocation import NO_GRANT, Grant
from tf_malleable.model.shape import Shape

JobState = Literal["waiting", "running", "paused"]


class Rate(NamedTuple):  # Compared and hashed in every decision.
    """A measured speed, in steps a second, with a number of cores."""

    cores: int
    steps_per_second: float


@dataclass(frozen=True)
class Job:
    """What a policy knows about a job. Times are in seconds on the caller's clock.

    Attributes:
        id: Unique; never reused.
        shape: The cores it asks for.
        submitted: Time of arrival.
        priority: Higher goes first.
        weight: Its share relative to the other jobs' weights; above 0.
        state: ``"waiting"``: has never had a grant. ``"running"``: has a grant.
            ``"paused"``: has lost its grant.
        since: When it entered this state.
        grant: Its present grant; empty unless running.
        started: When it first had a grant; None while waiting.
        resized: When its number of cores last changed while it ran, or later; None if it
            never did.
        run_seconds: Total time with a grant.
        used_cpus: CPUs that it recently kept busy or had runnable threads for, at least 0;
            None if not measured yet.
        steps_done: Training steps done; None if it reports none.
        steps_total: Training steps at its end; None if unknown.
        rates: Measured speeds, one for each number of cores, including those of earlier
            jobs with the same name.
        expected_seconds: Expected total run time, from earlier runs of the same command;
            None if there are none.
        user: Id of the user it belongs to; None if unknown.
        area: The area that its energy is counted for; None for the host's.
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
    resized: float | None = None
    run_seconds: float = 0.0
    used_cpus: float | None = None
    steps_done: float | None = None
    steps_total: float | None = None
    rates: tuple[Rate, ...] = ()
    expected_seconds: float | None = None
    user: int | None = None
    area: str | None = None
