# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Turns of two processes, changes under load and trainings, as numbers to compare. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

Interval = tuple[float, float]

# A task may begin this long before our thread gets to look at the clock in it.
_CLOCK_SLACK = 1e-3


@dataclass(frozen=True)
class Slice:
    """What one process did in some stretches of time, taken together."""

    steps: float
    wall: float
    cpu: float

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.wall

    @property
    def cpus(self) -> float:
        """CPUs used, on average."""
        return self.cpu / self.wall

    @property
    def cpu_per_step(self) -> float:
        """CPU seconds for one step; says less of the machine's other work than the rate."""
        return self.cpu / self.steps


def together(slices: Sequence[Slice]) -> Slice:
    """Return the slices as one."""
    return Slice(
        steps=sum(s.steps for s in slices),
        wall=sum(s.wall for s in slices),
        cpu=sum(s.cpu for s in slices),
    )


def order(number: int) -> tuple[bool, bool, bool, bool]:
    """Return who is measured when in a turn, True for us.

    ABBA cancels a drift within the turn; every second turn the other way
    round cancels what coming first does.
    """
    ours_first = number % 2 == 1
    return (ours_first, not ours_first, not ours_first, ours_first)


def longest_beside(lowered: Interval, tasks: Sequence[Interval]) -> float:
    """Return how long the longest task took that was running as the limit was lowered."""
    start, _ = lowered
    running = (
        end - begin for begin, end in tasks if begin <= start + _CLOCK_SLACK and end >= start
    )
    return max(running, default=0.0)


def overshoot(lowered: Interval, tasks: Sequence[Interval]) -> float:
    """Return how much longer settling took than the longest task; below 0 if shorter."""
    start, held = lowered
    return (held - start) - longest_beside(lowered, tasks)


def typical_training(trainings: Sequence[Sequence[float]]) -> float:
    """Return the sum of every step's median, for trainings of as many steps each.

    What slows down a step of most trainings counts, what slows down a few does not.
    """
    return float(np.median(np.asarray(trainings), axis=0).sum())


def realised_share(at_one: float, at_two: float, enlarged: float) -> float:
    """Return the part of the ideal gain that enlarging at a third of the work brought.

    All are seconds for the same work: with 1 thread, with 2, and with 1 for the
    first third and 2 from then on.
    """
    ideal = at_one / 3 + at_two * 2 / 3
    return (at_one - enlarged) / (at_one - ideal)
