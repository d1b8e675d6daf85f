# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Specification of a generated workload: jobs=1000,load=0.8,sizes=lognormal,mean=600."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, Literal

from tf_malleable.api.schema.job_request import MOST_CORES
from tf_malleable.model.units import quoted
from tf_malleable.simulate.engine.curves import parse_curve

Sizes = Literal["constant", "exponential", "lognormal", "pareto"]
Arrivals = Literal["poisson", "bursts", "daily"]

SIZES: Final[tuple[Sizes, ...]] = ("constant", "exponential", "lognormal", "pareto")
ARRIVALS: Final[tuple[Arrivals, ...]] = ("poisson", "bursts", "daily")
KEYS: Final = (
    *("jobs", "load", "arrivals", "sizes", "mean", "sigma", "alpha", "spread"),
    *("max-cores", "curves", "users", "idle"),
)

# Some curves contain commas and equals signs: 1=1,2=1.9.
_COMMA: Final = re.compile(r",(?=\s*[A-Za-z-]+\s*=)")
_ONLY_FOR: Final = {"sigma": "lognormal", "alpha": "pareto", "spread": "pareto"}


@dataclass(frozen=True)
class Spec:
    """A workload to generate.

    Attributes:
        jobs: Number of jobs.
        load: Work of all jobs on one core, relative to the capacity of all cores meanwhile.
        arrivals: Arrivals: a Poisson process, one of groups of ten jobs on average, or one whose
            rate rises and falls four times.
        sizes: Distribution of the work.
        mean: Mean of the work, in seconds on one core.
        sigma: Standard deviation of the work's logarithm, for the lognormal distribution.
        alpha: Index of the bounded Pareto distribution; the smaller, the heavier the tail.
        spread: Largest work divided by the smallest, for the bounded Pareto distribution.
        max_cores: Maximum number of cores that a job can use; None for all.
        curves: Speed-up curves, equally likely; empty for the assumed one.
        users: Number of users, equally likely.
        idle: Fraction of its time on one core that a job waits for input.
    """

    jobs: int = 100
    load: float = 0.7
    arrivals: Arrivals = "poisson"
    sizes: Sizes = "exponential"
    mean: float = 600.0
    sigma: float = 1.0
    alpha: float = 1.1
    spread: float = 1000.0
    max_cores: int | None = None
    curves: tuple[str, ...] = ()
    users: int = 1
    idle: float = 0.0


@dataclass(frozen=True)
class _Range:
    least: float
    most: float
    is_whole: bool = False
    # Whether the minimum itself is excluded.
    is_open: bool = False

    def __str__(self) -> str:
        if self.is_whole:
            return f"an integer from {self.least} to {self.most}"
        if self.is_open:
            return f"a number above {self.least:g}, at most {self.most:g}"
        return f"a number from {self.least:g} to {self.most:g}"

    def parse(self, text: str) -> float:
        value = int(text) if self.is_whole else float(text)
        if not self.least <= value <= self.most or (self.is_open and value == self.least):
            raise ValueError
        return value


_RANGES: Final = {
    "jobs": _Range(1, 10_000_000, is_whole=True),
    "load": _Range(0, 100, is_open=True),
    "mean": _Range(0, 1e9, is_open=True),
    "sigma": _Range(0, 5, is_open=True),
    "alpha": _Range(0, 10, is_open=True),
    "spread": _Range(1, 1e9, is_open=True),
    "max-cores": _Range(1, MOST_CORES, is_whole=True),
    "users": _Range(1, 10_000, is_whole=True),
    "idle": _Range(0, 0.99),
}
_NAMES: Final[dict[str, tuple[str, ...]]] = {"sizes": SIZES, "arrivals": ARRIVALS}


def parse_spec(text: str) -> Spec:
    """Return the workload that a text describes: KEY=VALUE,KEY=VALUE,…

    The keys are KEYS, and stand for the attributes of Spec. Curves are separated by bars:
    curves=amdahl:0.05|usl:0.1,0.001.

    Raises:
        ValueError: The text is invalid; the message says what is allowed.
    """
    values: dict[str, Any] = {}
    for part in _COMMA.split(text):
        key, equals, value = (word.strip() for word in part.partition("="))
        if key not in KEYS or not equals:
            raise ValueError(
                f"a workload must be described by KEY=VALUE,KEY=VALUE,… with {', '.join(KEYS)},"
                f" not by {quoted(part)}"
            )
        name = key.replace("-", "_")
        if name in values:
            raise ValueError(f"{key} must be given only once")
        values[name] = _parse(key, value)
    found = Spec(**values)
    for key, sizes in _ONLY_FOR.items():
        if key in values and found.sizes != sizes:
            raise ValueError(f"{key} must be given only with sizes={sizes}, not {found.sizes}")
    return found


def _parse(key: str, text: str) -> object:
    if key == "curves":
        return tuple(_curve(curve.strip()) for curve in text.split("|"))
    if key in _NAMES:
        if text not in _NAMES[key]:
            raise ValueError(f"{key} must be {', '.join(_NAMES[key])}, not {quoted(text)}")
        return text
    allowed = _RANGES[key]
    try:
        return allowed.parse(text)
    except ValueError:
        raise ValueError(f"{key} must be {allowed}, not {quoted(text)}") from None


def _curve(text: str) -> str:
    parse_curve(text)
    return text
