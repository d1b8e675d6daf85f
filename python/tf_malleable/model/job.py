# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job: the properties of a job that a policy sees."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar

from tf_malleable.model.allocation import NO_GRANT, Grant
from tf_malleable.model.job_state import JobState
from tf_malleable.model.services.request_load import RequestLoad
from tf_malleable.model.shape import Shape

UNREST_HALF_SECONDS: Final = 15.0
"""Time after which a resize counts half as much for a job's unrest."""

_A = TypeVar("_A")
_T = TypeVar("_T")


class Rate(NamedTuple):  # A tuple, as every decision compares and hashes it.
    """Measured speed, in steps per second, with a number of cores."""

    cores: int
    steps_per_second: float


@dataclass(frozen=True)
class Job:
    """A policy's view of a job. Times are in seconds on the caller's clock.

    Attributes:
        id: Unique id; never reused.
        shape: Cores that the job requests.
        submitted: Time of arrival.
        priority: Priority; a higher one goes first.
        weight: Share relative to the weights of other jobs; above 0.
        state: ``"waiting"``: has never had a grant. ``"running"``: has a grant.
            ``"paused"``: has lost its grant.
        since: Time at which the job entered this state.
        grant: Current grant; empty unless running.
        started: Time of the first grant; None while waiting.
        resized: Time of the last change of the number of cores while running, or a later
            time; None if it never changed.
        unrest: Number of these changes, of which older ones count less; as of the last one.
        run_seconds: Total time with a grant, in seconds.
        used_cpus: Number of CPUs that the job recently kept busy or had runnable threads for,
            at least 0; None if not measured yet.
        steps_done: Training steps done, or parallel regions if the job reports no steps; None if
            it reports neither.
        steps_total: Training steps at the end of the job; None if unknown.
        rates: Measured speeds, one for each number of cores, including those of earlier
            jobs with the same name.
        expected_seconds: Expected total run time in seconds, from earlier runs of the same
            command; None if there are none.
        startup_seconds: Expected seconds with cores until the first step begins, from earlier jobs
            with the same name; None if there are none that reported steps.
        user: Id of the job's user; None if unknown.
        area: Area to which the job's energy is attributed; None for the host's.
        load: Requests of a service that has an objective; None for other jobs.
        elastic: Whether it is a training whose processes join and leave with its cores, which
            takes seconds.
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
    unrest: float = 0.0
    run_seconds: float = 0.0
    used_cpus: float | None = None
    steps_done: float | None = None
    steps_total: float | None = None
    rates: tuple[Rate, ...] = ()
    expected_seconds: float | None = None
    startup_seconds: float | None = None
    user: int | None = None
    area: str | None = None
    load: RequestLoad | None = None
    elastic: bool = False

    def calm_at(self, most: float) -> float:
        """Return the time from which the unrest is at most `most`; -inf if it always was."""
        if self.resized is None or self.unrest <= most:
            return -math.inf
        return self.resized + UNREST_HALF_SECONDS * math.log2(self.unrest / most)

    def derived(self, compute: Callable[[Job, _A], _T], argument: _A) -> _T:
        """Return `compute(self, argument)`, computed once for this object and argument.

        So policies need no memory of their own: in a long queue most jobs are the same objects
        as at the last decision.
        """
        # Not a field: equal jobs stay equal, and a changed job starts without values.
        found: _T
        try:
            of, found = self.__dict__["_derived"][compute]
            if of is argument:
                return found
        except KeyError:
            pass
        found = compute(self, argument)
        self.__dict__.setdefault("_derived", {})[compute] = argument, found
        return found
