# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is simulated: jobs as the world knows them, and what the controller gets to know."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tf_malleable.model import Shape
from tf_malleable.simulate.curves import LINEAR, Speedup

ONE_CORE: Final = Shape(1, 1, 1)


@dataclass(frozen=True)
class Task:
    """A job to simulate. The policy sees none of its work, only what a real job would show.

    While it starts and ends it uses one core. Between, it works; after every `busy` seconds of
    work it waits for input for `idle` seconds, without using a CPU.

    Attributes:
        name: As submitted; speeds are learned by it.
        at: Arrival, in seconds after the workload's start.
        seconds: Its work: seconds on one core, above 0.
        curve: How much faster it works with more cores.
        shape: The cores it asks for.
        command: As submitted; run times are learned by it.
        user: Its owner.
        priority: As submitted.
        weight: As submitted.
        expected: Run time in seconds that its user expects; None if nothing was said.
        queue: Whether it waits if fewer than its min are free; otherwise it is refused.
        steps: Steps it reports in all while it works; None for one that reports none.
        told: Steps it announces, if that is not the truth.
        starting: Seconds before its first step, on one core.
        fetching: Seconds after that in which it waits for its first input.
        ending: Seconds after its last step.
        busy: Seconds of work, on one core, between two waits for input.
        idle: Seconds that each of these takes.
        fails_at: The part of its work after which it fails; None for one that finishes.

    Raises:
        ValueError: An attribute is invalid; the message says which, and what is allowed.
    """

    name: str
    at: float
    seconds: float
    curve: Speedup = LINEAR
    shape: Shape = ONE_CORE
    command: tuple[str, ...] = ()
    user: str = "user"
    priority: int = 0
    weight: float = 1.0
    expected: float | None = None
    queue: bool = True
    steps: float | None = 100.0
    told: float | None = None
    starting: float = 0.0
    fetching: float = 0.0
    ending: float = 0.0
    busy: float = math.inf
    idle: float = 0.0
    fails_at: float | None = None

    def __post_init__(self) -> None:
        _check("the arrival", self.at, zero=True)
        _check("the work", self.seconds)
        for name, value in (("starting", self.starting), ("ending", self.ending)):
            _check(f"the time for {name}", value, zero=True)
        _check("the wait for input", self.idle, zero=True)
        _check("the wait for the first input", self.fetching, zero=True)
        if not self.busy > 0:
            raise ValueError(f"the work between waits must be above 0 seconds, not {self.busy:g}")
        if self.fails_at is not None and not 0 < self.fails_at <= 1:
            raise ValueError(
                f"the part of the work after which it fails must be above 0, at most 1, not"
                f" {self.fails_at:g}"
            )

    @property
    def work(self) -> float:
        """The work that is done in the end, in seconds on one core."""
        return self.seconds if self.fails_at is None else self.seconds * self.fails_at


def _check(what: str, seconds: float, *, zero: bool = False) -> None:
    if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
        allowed = "at least 0" if zero else "above 0"
        raise ValueError(f"{what} must be a finite number of seconds, {allowed}, not {seconds:g}")
