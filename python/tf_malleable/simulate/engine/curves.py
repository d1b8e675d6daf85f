# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Speed-up curves of simulated jobs: by a law, or as measured."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol

from tf_malleable.model.units import quoted
from tf_malleable.policies.queues.speedup import Curve

FORMS: Final = (
    "linear, amdahl:SERIAL, usl:CONTENTION,COHERENCE or CORES=SPEEDUP,CORES=SPEEDUP,…"
    " such as 1=1,2=1.9,4=3.4"
)


class Speedup(Protocol):
    """A speed-up curve."""

    def speedup(self, cores: int) -> float:
        """Return the speed relative to one core; 0 on no cores."""
        ...


LINEAR: Final[Speedup] = Curve(1.0, 0.0)


@dataclass(frozen=True)
class Measured:
    """A measured curve: linear between the numbers of cores, and flat beyond the last.

    Attributes:
        points: Speed-ups by number of cores, ascending; the first is 1.0 with one core.
    """

    points: tuple[tuple[int, float], ...]

    def speedup(self, cores: int) -> float:
        """Return the speed relative to one core; 0 on no cores."""
        if cores < 1:
            return 0.0
        above = bisect_right(self.points, (cores, math.inf))
        (left, low) = self.points[above - 1]
        if above == len(self.points) or left == cores:
            return low
        (right, high) = self.points[above]
        return low + (high - low) * (cores - left) / (right - left)


def amdahl(serial: float) -> Curve:
    """Return Amdahl's law (1967).

    Args:
        serial: Part of the work that more cores do not shorten, 0 … 1.

    Raises:
        ValueError: `serial` is out of range.
    """
    if not 0 <= serial <= 1:
        raise ValueError(f"a serial part must be 0 … 1, not {serial:g}")
    return Curve(1.0, serial)


def usl(contention: float, coherence: float) -> Curve:
    """Return the Universal Scalability Law (Gunther, 2008).

    Raises:
        ValueError: The contention is not 0 … 1, or the coherence not 0 … 1.
    """
    if not (0 <= contention <= 1 and 0 <= coherence <= 1):
        raise ValueError(
            f"contention and coherence must be 0 … 1, not {contention:g} and {coherence:g}"
        )
    return Curve(1.0, contention, coherence)


def measured(speeds: Mapping[int, float]) -> Measured:
    """Return the curve through measured speeds, in any unit, by number of cores.

    Raises:
        ValueError: There is no speed with one core, or one is not positive and finite.
    """
    for cores, speed in speeds.items():
        if cores < 1 or not (math.isfinite(speed) and speed > 0):
            raise ValueError(f"speeds must be above 0, with at least 1 core, not {cores}={speed:g}")
    if 1 not in speeds:
        raise ValueError("a measured curve must begin with the speed with 1 core")
    return Measured(tuple((cores, speeds[cores] / speeds[1]) for cores in sorted(speeds)))


def parse_curve(text: str) -> Speedup:
    """Return the curve that a text describes; see FORMS.

    Raises:
        ValueError: It is not a curve; the message is one sentence.
    """
    kind, colon, rest = text.partition(":")
    try:
        if text == "linear":
            return LINEAR
        if kind == "amdahl" and colon:
            return amdahl(float(rest))
        if kind == "usl" and colon:
            contention, coherence = rest.split(",")
            return usl(float(contention), float(coherence))
        pairs = [part.split("=") for part in text.split(",")]
        speeds = {int(cores): float(speed) for cores, speed in pairs}
        if len(speeds) < len(pairs):
            raise ValueError
    except ValueError as error:
        said = str(error)
        if said.startswith(("a serial part", "contention and")):
            raise
        raise ValueError(f"a curve must be {FORMS}, not {quoted(text)}") from None
    return measured(speeds)
