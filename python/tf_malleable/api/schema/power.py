# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages about power. Watts are rounded averages over at least a second.

Finer values would reveal what other programs compute (CVE-2020-8694).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tf_malleable.api.schema.requests import Area, Request
from tf_malleable.model.power import (
    LEAST_WINDOW,
    MOST_WATTS,
    MOST_WINDOW,
    BudgetKind,
    EnergySource,
)


class BudgetInForce(msgspec.Struct, frozen=True, kw_only=True):
    """Power budget in force.

    Attributes:
        watts: Limit in watts.
        kind: ``"peak"``: never exceeded. ``"mean"``: not exceeded on average over any window.
        window: Length of the window in seconds; null for a peak.
        until: Unix time at which the budget expires; null for never.
        author: Author of the budget; ``"default"`` for the one that applies without any other.
        cores: Number of cores that all jobs, or those of the area, may currently have.
    """

    watts: float
    kind: BudgetKind
    window: float | None = None
    until: float | None = None
    author: str
    cores: int


class AreaPower(msgspec.Struct, frozen=True):
    """Power and energy of an area on this host: of its jobs, and of the rest in the host's area.

    Attributes:
        area: Name of the area.
        watts: Current power draw.
        joules: Energy drawn since the controller was started, by source.
        budget: Budget of the area's jobs; null for no limit. The host's area has none here.
    """

    area: str
    watts: float
    joules: dict[EnergySource, float]
    budget: BudgetInForce | None = None


class PowerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """Power draw of the host.

    Attributes:
        area: Area of the host.
        meter: Meter in use; null if there is none.
        source: Source of the values; null if there are none.
        watts: Current power draw of the whole host; null if unknown.
        idle_watts: Power draw of the host without load; null if unknown.
        other_watts: Power drawn for everything except jobs, without idle_watts; null if unknown.
        areas: Areas of the host and its jobs.
        curve: Power curve, as pairs of load (0 … 1) and watts; empty if unknown.
        budget: Budget of the whole host; null for no limit.
        default: Peak in watts that applies while there is no other budget; null for no limit.
        problem: Reason why there are no better values; null if there is no problem.
    """

    area: str
    meter: str | None = None
    source: EnergySource | None = None
    watts: float | None = None
    idle_watts: float | None = None
    other_watts: float | None = None
    areas: list[AreaPower] = []
    curve: list[tuple[float, float]] = []
    budget: BudgetInForce | None = None
    default: float | None = None
    problem: str | None = None


Watts = Annotated[float, Meta(gt=0, le=MOST_WATTS)]
Window = Annotated[float, Meta(ge=LEAST_WINDOW, le=MOST_WINDOW)]


class BudgetRequest(Request, frozen=True):
    """Power budget for an area: the host's, or that of jobs.

    Attributes:
        area: Name of the area.
        watts: Limit in watts; null withdraws the budget.
        window: Length in seconds of the window over which the mean is limited; null for a peak.
        until: Unix time at which the budget expires; null for never.
    """

    area: Area
    watts: Watts | None
    window: Window | None = None
    until: Annotated[float, Meta(ge=0, le=1e11)] | None = None
