# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From raw samples to estimates and verdicts. Pure: no clock, no process, no file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

Interval = tuple[float, float]
Statistic = Callable[[np.ndarray], float]
Verdict = Literal["PASS", "MISS", "-"]

_RESAMPLES = 1000
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


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % confidence interval and the quartiles of its samples."""

    value: float
    low: float
    high: float
    quartiles: tuple[float, float]
    samples: int


def median(samples: np.ndarray) -> float:
    """Return the median."""
    return float(np.median(samples))


def percentile_99(samples: np.ndarray) -> float:
    """Return the 99th percentile."""
    return float(np.percentile(samples, 99))


def highest(samples: np.ndarray) -> float:
    """Return the maximum."""
    return float(np.max(samples))


def estimate(generations: Sequence[Sequence[float]], statistic: Statistic = median) -> Estimate:
    """Return the statistic of all samples, bootstrapped in two steps.

    Samples of one generation of processes have the bias of those processes in
    common. So generations are drawn first, then samples within each.
    """
    groups = [np.asarray(group, dtype=float) for group in generations if len(group) > 0]
    pooled = np.concatenate(groups)
    random = np.random.default_rng(0)
    draws = []
    for _ in range(_RESAMPLES):
        drawn = [groups[i] for i in random.integers(len(groups), size=len(groups))]
        draws.append(
            statistic(np.concatenate([g[random.integers(g.size, size=g.size)] for g in drawn]))
        )
    low, high = np.percentile(draws, [2.5, 97.5])
    first, third = np.percentile(pooled, [25, 75])
    return Estimate(
        value=statistic(pooled),
        low=float(low),
        high=float(high),
        quartiles=(float(first), float(third)),
        samples=int(pooled.size),
    )


@dataclass(frozen=True)
class Bar:
    """What a value must reach, or not exceed."""

    value: float
    at_least: bool

    def met_by(self, value: float) -> bool:
        """True if the value passes."""
        return value >= self.value if self.at_least else value <= self.value


def verdict(value: float, bar: Bar | None) -> Verdict:
    """Return how the value compares with the bar."""
    if bar is None:
        return "-"
    return "PASS" if bar.met_by(value) else "MISS"


def is_sure(found: Estimate, bar: Bar | None) -> bool:
    """True if the confidence interval lies on one side of the bar."""
    return bar is None or bar.met_by(found.low) == bar.met_by(found.high)


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
