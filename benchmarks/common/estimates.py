# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""From samples to estimates with confidence intervals. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

Statistic = Callable[[np.ndarray], float]

_RESAMPLES = 1000


@dataclass(frozen=True)
class Estimate:
    """A value with its 95 % confidence interval.

    What was measured once has none: `low` and `high` are the value itself.
    """

    value: float
    low: float
    high: float
    samples: int

    @property
    def has_interval(self) -> bool:
        """True if it was measured more than once."""
        return self.samples > 1

    @classmethod
    def from_json(cls, said: Mapping[str, Any]) -> Estimate:
        """Return an estimate from a file; those of earlier versions have more fields."""
        return cls(**{name: said[name] for name in cls.__dataclass_fields__})


def once(value: float) -> Estimate:
    """Return what was measured once, or counted."""
    return Estimate(value, value, value, samples=1)


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
    return Estimate(
        value=statistic(pooled),
        low=float(low),
        high=float(high),
        samples=int(pooled.size),
    )


def paired_ratio(ours: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the median of ours divided by the median of others, bootstrapped over rounds.

    Both have a value of each round, in the order of rounds.
    """
    pairs = np.asarray([ours, others], dtype=float)
    count = pairs.shape[1]
    random = np.random.default_rng(0)
    draws = np.median(pairs[:, random.integers(count, size=(_RESAMPLES, count))], axis=2)
    low, high = np.percentile(draws[0] / draws[1], [2.5, 97.5])
    ratio = float(np.median(pairs[0]) / np.median(pairs[1]))
    return Estimate(ratio, float(low), float(high), count)


def geometric_ratio(ours: Sequence[float], others: Sequence[float]) -> Estimate:
    """Return the geometric mean of the ratios of ours and others, bootstrapped over rounds.

    Both have a value above 0 of each round, in the order of rounds.
    """
    logs = np.log(np.asarray(ours, dtype=float) / np.asarray(others, dtype=float))
    count = logs.size
    drawn = np.random.default_rng(0).integers(count, size=(_RESAMPLES, count))
    low, high = np.exp(np.percentile(logs[drawn].mean(axis=1), [2.5, 97.5]))
    return Estimate(float(np.exp(logs.mean())), float(low), float(high), count)
