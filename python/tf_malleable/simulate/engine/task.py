# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tasks: the jobs of a simulation, with their real work and what the controller learns of it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from tf_malleable.model import Shape
from tf_malleable.model.services.slo import Slo
from tf_malleable.simulate.engine.curves import LINEAR, Speedup
from tf_malleable.simulate.engine.request_queue import RequestStream

ONE_CORE: Final = Shape(1, 1, 1)


@dataclass(frozen=True)
class Task:
    """A job to simulate. The policy sees only what a real job would show, not its work.

    While it starts and ends it uses one core. In between it works; after every `busy` seconds of
    work it waits for input for `idle` seconds, without using a CPU.

    Attributes:
        name: Name, as submitted; speeds are learned by it.
        at: Arrival, in seconds after the workload's start.
        seconds: Work, in seconds on one core; above 0.
        curve: Speed-up curve of the work.
        shape: Requested cores.
        command: Command, as submitted; run times are learned by it.
        user: Name of the owner.
        priority: Priority, as submitted.
        weight: Weight, as submitted.
        expected: Run time in seconds that the user expects; None if not given.
        queue: Whether the job waits if fewer than its min are free; otherwise it is refused.
        steps: Total number of steps it reports while it works; None if it reports none.
        told: Announced number of steps, if that is not the real one.
        starting: Seconds before the first step, on one core.
        fetching: Seconds after the start in which the job waits for its first input.
        ending: Seconds after the last step.
        busy: Seconds of work, on one core, between two waits for input.
        idle: Seconds of each wait for input.
        fails_at: Fraction of the work after which the job fails; None if it finishes.
        requests: Requests that it serves, each with this curve; the work is then the time for
            which it serves. None for no service.
        slo: Objective of a service; None for none.

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
    requests: RequestStream | None = None
    slo: Slo | None = None

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
        """Work that is done in the end, in seconds on one core."""
        return self.seconds if self.fails_at is None else self.seconds * self.fails_at


def _check(what: str, seconds: float, *, zero: bool = False) -> None:
    if not math.isfinite(seconds) or seconds < 0 or (seconds == 0 and not zero):
        allowed = "at least 0" if zero else "above 0"
        raise ValueError(f"{what} must be a finite number of seconds, {allowed}, not {seconds:g}")
