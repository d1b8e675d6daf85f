# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Power budgets of areas whose jobs share this host with others.

The energy of an area is known once a second. In between, its credit is updated with the
power that its jobs are expected to draw with their cores, and corrected afterwards.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, fields

from tf_malleable.api.schema.power import BudgetInForce
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.model import AreaLimit, Budget, PowerLimit
from tf_malleable.policies.wrappers.budget import cap_of

# The only author of budgets for a part of a host.
_HERE = "this host"

_log = logging.getLogger(__name__)


@dataclass
class _Kept:
    """A budget and its credit in joules.

    Attributes:
        budget: The budget.
        credit: Credit at the last metering.
        since: Expected change of the credit since then.
        at: Unix time up to which `since` counts.
    """

    budget: Budget
    credit: float
    since: float
    at: float


class AreaBudgets:
    """Power budgets by area. Not thread-safe: one asyncio loop.

    Args:
        limit_of: Returns the power limit of a budget on this host.
        granted: Returns the number of CPUs that the jobs of an area currently have.
        now: Returns Unix time on the clock of all records.
        react: Called when another decision is needed.
    """

    def __init__(
        self,
        limit_of: Callable[[Budget], PowerLimit],
        granted: Callable[[str], int],
        now: Callable[[], float],
        react: Callable[[], None],
    ) -> None:
        self._limit_of, self._granted = limit_of, granted
        self._now, self._react = now, react
        self._kept: dict[str, _Kept] = {}

    def __contains__(self, area: object) -> bool:
        return area in self._kept

    def limits(self) -> tuple[AreaLimit, ...]:
        """Return the limits that a decision must keep."""
        now = self._now()
        return tuple(
            self._until(area, kept, now)
            for area, kept in sorted(self._kept.items())
            if not kept.budget.is_over(now)
        )

    def _until(self, area: str, kept: _Kept, now: float) -> AreaLimit:
        """Return a limit with its current credit."""
        if kept.budget.kind == "mean":
            drawn = self._of(area, kept.budget).watts(self._granted(area))
            kept.since += (kept.budget.watts - drawn) * max(0.0, now - kept.at)
        kept.at = now
        return self._of(area, kept.budget, kept.credit + kept.since, now)

    def _of(self, area: str, budget: Budget, credit: float = 0.0, at: float = 0.0) -> AreaLimit:
        host = self._limit_of(budget)
        known = {each.name: getattr(host, each.name) for each in fields(host)}
        known["credit"], known["at"] = min(credit, host.most_credit), at
        return AreaLimit(**known, area=area)

    def note_drawn(self, seconds: float, joules: Mapping[str, float]) -> None:
        """Record the energy of each area since the last call.

        Args:
            seconds: Seconds since the last call.
            joules: Energy by area; missing areas have 0.
        """
        for area, kept in self._kept.items():
            most = self._limit_of(kept.budget).most_credit
            drawn = joules.get(area, 0.0)
            kept.credit = min(most, kept.credit + kept.budget.watts * seconds - drawn)
            kept.since = 0.0

    def follow(self) -> None:
        """Drop expired budgets; request a decision if there were any budgets."""
        now, had = self._now(), bool(self._kept)
        for area in [area for area, kept in self._kept.items() if kept.budget.is_over(now)]:
            del self._kept[area]
            _log.warning("the power budget of area %s has expired", area)
        if had:
            self._react()

    def give(self, area: str, budget: Budget | None) -> None:
        """Set an area's budget, or withdraw it.

        Raises:
            Refusal: The budget has expired, or cannot be kept.
        """
        if budget is None:
            if self._kept.pop(area, None) is not None:
                _log.warning("the power budget of area %s is withdrawn", area)
        else:
            self._check(area, budget)
            self._kept[area] = _Kept(budget, 0.0, 0.0, self._now())
            _log.warning("a power budget of area %s: %g W", area, budget.watts)
        self._react()

    def _check(self, area: str, budget: Budget) -> None:
        if budget.is_over(self._now()):
            raise Refusal(409, "the budget has already expired")
        least = self._of(area, budget).watts(1)
        if budget.kind == "peak" and budget.watts < least:
            raise Refusal(
                409,
                f"a job with one core can draw {least:.0f} W here, so a peak must be at least"
                f" that, not {budget.watts:g} W; a mean may be less",
            )

    def in_force(self) -> dict[str, BudgetInForce]:
        """Return the budget of each area that has one."""
        return {
            limit.area: BudgetInForce(
                watts=limit.budget.watts,
                kind=limit.budget.kind,
                window=limit.budget.window,
                until=limit.budget.until,
                author=_HERE,
                cores=cap_of(limit, self._granted(limit.area), limit.at).cores,
            )
            for limit in self.limits()
        }

    def check_known(self, area: str, host: str, known: Collection[str]) -> None:
        """Refuse an area that is unknown here, which may be a typing error.

        Args:
            area: Name of the area.
            host: Area of the host, for the message.
            known: Areas of current and earlier jobs.

        Raises:
            Refusal: The area is not known and has no budget.
        """
        if area not in known and area not in self:
            names = ", ".join(sorted({host, *known, *self._kept}))
            raise Refusal(404, f"no job here is in area {area}: budgets can be given to {names}")
