# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Power curves, power budgets and power limits of a machine. Watts, joules and seconds."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Literal

EnergySource = Literal["measured", "estimated", "replayed"]
"""Source of a value: a meter of this host, its power curve, or a recording."""

BudgetKind = Literal["peak", "mean"]

MOST_WATTS: Final = 1e6
LEAST_WINDOW: Final = 10.0
MOST_WINDOW: Final = 86400.0


@dataclass(frozen=True)
class PowerCurve:
    """Power of a host as a function of load, the share of busy CPUs; linear between points.

    Attributes:
        points: Pairs of load and watts. Loads increase strictly from 0 (idle) to 1 (full).

    Raises:
        ValueError: The loads do not increase so, or a power is out of range; the message says
            which.
    """

    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        loads = [load for load, _ in self.points]
        if len(loads) < 2 or loads[0] != 0 or loads[-1] != 1:
            raise ValueError("a power curve needs points from load 0 to load 1")
        if not all(one < other for one, other in pairwise(loads)):
            raise ValueError("the loads of a power curve must increase from one point to the next")
        for load, watts in self.points:
            if not 0 <= watts <= MOST_WATTS:  # This rejects NaN, too.
                raise ValueError(
                    f"a power curve must have 0 … {MOST_WATTS:.0f} W, not {watts} at load {load:g}"
                )

    @property
    def idle(self) -> float:
        """Power in watts without load."""
        return self.points[0][1]

    @property
    def full(self) -> float:
        """Power in watts with all CPUs busy."""
        return self.points[-1][1]

    def watts(self, load: float) -> float:
        """Return the power in watts at a load, which is clamped to 0 … 1."""
        load = min(1.0, max(0.0, load))
        right = min(bisect_right(self.points, (load, math.inf)), len(self.points) - 1)
        (low, least), (high, most) = self.points[right - 1], self.points[right]
        return least + (most - least) * (load - low) / (high - low)


def lower_hull(points: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the vertices of the lower convex hull, in order of their first number.

    Switching between two neighbouring vertices reaches every point on the line between them on
    average, and no other way of switching between points achieves a lower one.

    Args:
        points: Points in increasing order of their first number.
    """
    hull: list[tuple[float, float]] = []
    for point in points:
        while len(hull) > 1 and _is_above(hull[-2], hull[-1], point):
            hull.pop()
        hull.append(point)
    return hull


def _is_above(
    left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]
) -> bool:
    """Return whether a point is on or above the line between two others."""
    (x0, y0), (x1, y1), (x2, y2) = left, middle, right
    return (y1 - y0) * (x2 - x0) >= (y2 - y0) * (x1 - x0)


@dataclass(frozen=True)
class Budget:
    """A power budget.

    Attributes:
        watts: Power in watts.
        kind: ``"peak"``: never exceeded. ``"mean"``: not exceeded on average over any window.
        window: Length of the window in seconds; None for a peak.
        until: Unix time at which the budget expires; None for never.
        serial: Serial number; later budgets of the same author have higher numbers.

    Raises:
        ValueError: A number is out of range; the message says which.
    """

    watts: float
    kind: BudgetKind = "peak"
    window: float | None = None
    until: float | None = None
    serial: int = 0

    def __post_init__(self) -> None:
        if not 0 < self.watts <= MOST_WATTS:
            raise ValueError(
                f"a budget must be above 0 W, at most {MOST_WATTS:g} W, not {self.watts}"
            )
        if (self.kind == "mean") != (self.window is not None):
            raise ValueError("a mean needs a window, and a peak has none")
        if self.window is not None and not LEAST_WINDOW <= self.window <= MOST_WINDOW:
            raise ValueError(
                f"a window must have {LEAST_WINDOW:.0f} … {MOST_WINDOW:.0f} seconds,"
                f" not {self.window}"
            )
        if self.until is not None and not math.isfinite(self.until):
            raise ValueError(f"until must be a time, not {self.until}")

    def is_over(self, now: float) -> bool:
        """Return whether the budget has expired at this Unix time."""
        return self.until is not None and now >= self.until


@dataclass(frozen=True)
class PowerLimit:
    """A budget in force on a machine, with the state that a policy needs to keep it.

    Attributes:
        budget: Budget in force.
        curve: Power curve of the whole host.
        cpus: Number of CPUs of the whole host.
        shared: Number of these CPUs that are shared out among jobs.
        beside: Number of CPUs kept busy by processes that belong to no job.
        scale: Measured power of the host divided by the power of the curve.
        credit: Energy in joules that may be drawn beyond the mean now; negative for a debt.
        at: Time of the credit, on the clock of the decision.
    """

    budget: Budget
    curve: PowerCurve
    cpus: int
    shared: int
    beside: float = 0.0
    scale: float = 1.0
    credit: float = 0.0
    at: float = 0.0

    def watts(self, cores: int) -> float:
        """Return the expected power of the host in watts if jobs keep this many cores busy."""
        return self.scale * self.curve.watts((cores + self.beside) / max(1, self.cpus))

    def levels(self) -> Sequence[tuple[float, float]]:
        """Return the lower convex hull of cores and watts, fewest cores first."""
        return lower_hull((cores, self.watts(cores)) for cores in range(self.shared + 1))

    @property
    def depth(self) -> float:
        """The credit in joules at which jobs begin to run with more cores."""
        return _DEPTH * self.budget.watts * (self.budget.window or 0.0)

    @property
    def most_credit(self) -> float:
        """The maximum credit in joules: the excess over the mean that any window may draw."""
        return _MOST / _DEPTH * self.depth


@dataclass(frozen=True)
class AreaLimit(PowerLimit):
    """A budget in force for the jobs of an area that share a machine with others.

    The limit applies to the power attributed to the area: the power of the host beyond idle,
    divided by CPU time. So the power attributed to a core depends on how busy the host is. Its
    maximum over any number of cores busy for others counts, so that no decision about one area
    depends on a decision about another.

    Attributes:
        area: Name of the area.
        taken: Cores that the area's jobs have beside those that are to be shared out.
    """

    area: str = ""
    taken: int = 0

    def watts(self, cores: int) -> float:
        """Return the expected maximum power of the area in watts with this many busy cores."""
        if cores <= 0:
            return 0.0
        busy = cores + self.beside
        dearer = bisect_right(self._highest, (busy, math.inf))
        later = self._highest[dearer][1] if dearer < len(self._highest) else 0.0
        return cores * max(self._price(busy), later)

    def _price(self, busy: float) -> float:
        """Return the watts attributed to each CPU if this many CPUs are busy."""
        drawn = self.scale * self.curve.watts(busy / max(1, self.cpus))
        return max(0.0, drawn - self.curve.idle) / busy

    @cached_property
    def _highest(self) -> list[tuple[float, float]]:
        """Numbers of busy CPUs, each with the highest price at that number or a higher one.

        Between two points of the curve, the price is monotonic.
        """
        most = self.shared + self.beside
        bends = [load * self.cpus for load, _ in self.curve.points]
        highest, found = 0.0, list[tuple[float, float]]()
        for busy in sorted({most, *(each for each in bends if 0 < each < most)}, reverse=True):
            highest = max(highest, self._price(busy) if busy > 0 else 0.0)
            found.append((busy, highest))
        return found[::-1]


# As parts of the energy of a whole window. A decision comes up to a tenth of a second late, and
# the energy saved meanwhile must not be lost.
_DEPTH = 0.012
_MOST = 0.016
