# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Distributions of the work of generated jobs, each with a given mean."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Final

from tf_malleable.simulate.workloads.spec import Sizes, Spec

Draw = Callable[[random.Random], float]


def drawing(spec: Spec) -> Draw:
    """Return the function that draws the work of a job, in seconds on one core."""
    return _DRAWING[spec.sizes](spec)


def _constant(spec: Spec) -> Draw:
    return lambda rng: spec.mean


def _exponential(spec: Spec) -> Draw:
    # expovariate() returns 0 once in 2 ** 53 draws.
    return lambda rng: max(rng.expovariate(1.0), 1e-9) * spec.mean


def _lognormal(spec: Spec) -> Draw:
    mu = math.log(spec.mean) - spec.sigma**2 / 2
    return lambda rng: rng.lognormvariate(mu, spec.sigma)


def _pareto(spec: Spec) -> Draw:
    """Return the bounded Pareto distribution, by inversion.

    Harchol-Balter, "The Effect of Heavy-Tailed Job Size Distributions on Computer System
    Design", 1999.
    """
    alpha, spread = spec.alpha, spec.spread
    covered = -math.expm1(-alpha * math.log(spread))
    least = spec.mean * covered / (alpha * _integral(alpha - 1, spread))
    return lambda rng: least * (1 - rng.random() * covered) ** (-1 / alpha)


def _integral(power: float, spread: float) -> float:
    """Return the integral of x ** -(power + 1) from 1 to `spread`."""
    length = math.log(spread)
    return length if power == 0 else -math.expm1(-power * length) / power


_DRAWING: Final[dict[Sizes, Callable[[Spec], Draw]]] = {
    "constant": _constant,
    "exponential": _exponential,
    "lognormal": _lognormal,
    "pareto": _pareto,
}
