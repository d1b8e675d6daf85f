# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages about power: watts are averages over at least a second, rounded.

Finer ones would tell what other programs compute (CVE-2020-8694).
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from tf_malleable.api.requests import Area, Request
from tf_malleable.model.power import (
    LEAST_WINDOW,
    MOST_WATTS,
    MOST_WINDOW,
    BudgetKind,
    EnergySource,
)


class BudgetInForce(msgspec.Struct, frozen=True, kw_only=True):
    """The budget that is kept now.

    Attributes:
        watts: So much.
        kind: ``"peak"``: never more. ``"mean"``: not more on average over any window.
        window: Length of the window in seconds; null for a peak.
        until: Unix time at which it expires; null for never.
        author: Who gave it; ``"default"`` if it is the one for when there is no other.
        cores: Cores that jobs, or those of the area, may have at this moment.
    """

    watts: float
    kind: BudgetKind
    window: float | None = None
    until: float | None = None
    author: str
    cores: int


class AreaPower(msgspec.Struct, frozen=True):
    """What an area draws and has drawn here: its jobs; the host's area, all that is no job's too.

    Attributes:
        area: Its name.
        watts: Now.
        joules: Since the controller was started, by source.
        budget: What its jobs may draw; null for no limit. The host's area has none here.
    """

    area: str
    watts: float
    joules: dict[EnergySource, float]
    budget: BudgetInForce | None = None


class PowerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """What the host draws.

    Attributes:
        area: The area that the host belongs to.
        meter: What measures; null if nothing does.
        source: Where the values are from; null if there are none.
        watts: The whole host now; null if unknown.
        idle_watts: What it draws without load.
        other_watts: What is drawn for what is no job, without idle.
        areas: The areas that the host and its jobs belong to.
        curve: What the host draws, as pairs of load, 0 … 1, and watts; empty if unknown.
        budget: What may be drawn; null for no limit.
        default: Watts of the peak that is kept while there is no other budget; null for no limit.
        problem: Why there is no better value; null if nothing is wrong.
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
    """A budget for an area: the host's, or that of jobs.

    Attributes:
        area: The area.
        watts: What it may draw; null withdraws the budget.
        window: Keep it as a mean over any window of so many seconds; null: as a peak.
        until: Unix time at which it expires; null for never.
    """

    area: Area
    watts: Watts | None
    window: Window | None = None
    until: Annotated[float, Meta(ge=0, le=1e11)] | None = None
