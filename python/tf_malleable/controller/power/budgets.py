# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Power budgets of this host: their authors, and the limits that a decision must keep.

Budgets of the host's own area are for the whole host, those of other areas for their jobs.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from tf_malleable.api.schema.power import BudgetInForce, BudgetRequest
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.ports import Power
from tf_malleable.controller.power.area_budgets import AreaBudgets
from tf_malleable.model import Budget, PowerLimit
from tf_malleable.model.power import BudgetKind
from tf_malleable.policies.wrappers.budget import cap_of
from tf_malleable.scheduling.energy.budget_book import BudgetBook
from tf_malleable.scheduling.energy.energy_lines import Energy

# The author of budgets that a person gives on this host.
_HERE = "this host"
# Weight of the newest second in the exponential averages.
_NEWEST = 0.2
# Bounds of the ratio of metered to expected power; outside, the meter or the curve is wrong.
_SCALES = 0.5, 2.0

_NO_CURVE = (
    "no budget can be kept, as this host's power curve is unknown: run tfm power calibrate, and"
    " restart the controller"
)

_log = logging.getLogger(__name__)


class Budgets:
    """Power budgets of the host. Not thread-safe: one asyncio loop.

    Attributes:
        areas: Budgets of areas other than the host's.

    Args:
        power: Power meter of the host.
        cpus: Number of CPUs of the whole host.
        shared: Returns the number of CPUs that are currently shared out.
        granted: Returns the number of CPUs that the jobs of an area currently have.
        now: Returns Unix time on the clock of all records.
        react: Called when another decision is needed.
        default: Budget that applies while there is no other; None for no limit.
    """

    def __init__(
        self,
        power: Power,
        cpus: int,
        shared: Callable[[], int],
        granted: Callable[[str], int],
        now: Callable[[], float],
        react: Callable[[], None],
        default: Budget | None,
    ) -> None:
        self._power, self._cpus, self._shared = power, cpus, shared
        self._now, self._react = now, react
        self._book = BudgetBook(default)
        # The budget that the credit belongs to, and the credit.
        self._current: Budget | None = None
        self._credit, self._credit_at = 0.0, 0.0
        self._beside, self._scale = 0.0, 1.0
        self.areas = AreaBudgets(self._limit_of, granted, now, react)

    # Input of a decision.

    def limit(self) -> PowerLimit | None:
        """Return the limit that a decision must keep; None for no limit."""
        budget = self._book.in_force(self._now())
        if budget is None or self._power.curve is None:
            self._current = None
            return None
        if budget != self._current:
            self._current, self._credit, self._credit_at = budget, 0.0, self._now()
        return self._limit_of(budget, self._credit, self._credit_at)

    @property
    def needs_readings(self) -> bool:
        """Whether a decision depends on the energy drawn so far."""
        return self._current is not None and self._current.kind == "mean"

    def _limit_of(self, budget: Budget, credit: float = 0.0, at: float = 0.0) -> PowerLimit:
        assert self._power.curve is not None
        return PowerLimit(
            budget,
            self._power.curve,
            self._cpus,
            self._shared(),
            self._beside,
            self._scale,
            credit,
            at,
        )

    def note_drawn(self, energy: Energy) -> None:
        """Record the energy drawn since the last call."""
        budget = self._current
        if budget is None:
            return
        most = self._limit_of(budget).most_credit
        self._credit += budget.watts * energy.seconds - energy.joules
        self._credit = min(most, self._credit)
        self._credit_at = self._now()

    def note_load(self, energy: Energy, busy: float, by_jobs: float) -> None:
        """Update the load that is not of jobs, and the correction factor of the power curve.

        Args:
            energy: Energy drawn in the last second.
            busy: CPU time of everything on the host in that time, in seconds.
            by_jobs: CPU time of jobs in that time, in seconds.
        """
        beside = max(0.0, busy - by_jobs) / energy.seconds
        self._beside += _NEWEST * (beside - self._beside)
        curve = self._power.curve
        if curve is None or energy.source == "estimated":
            return
        expected = curve.watts(busy / energy.seconds / self._cpus) * energy.seconds
        if expected > 0:
            scale = energy.joules / expected
            scale = min(_SCALES[1], max(_SCALES[0], scale))
            self._scale += _NEWEST * (scale - self._scale)

    def follow(self) -> None:
        """Drop expired budgets; request a decision if one expired or is in force."""
        pruned = self._book.pruned(self._now())
        if pruned is not self._book:
            self._book = pruned
            _log.warning("a power budget has expired: %s", self._in_words())
            self._react()
        elif self._current is not None:
            self._react()
        self.areas.follow()

    # Authors.

    def given(self, author: str, budget: Budget) -> None:
        """Accept a budget; see BudgetObserver."""
        curve = self._power.curve
        if curve is None:
            raise ValueError(_NO_CURVE)
        least = curve.watts(1 / self._cpus)
        self._book = self._book.taking(author, budget, self._now(), curve, least)
        _log.warning("a power budget of %s: %s", author, self._in_words())
        self._react()

    def withdrawn(self, author: str) -> None:
        """Handle that an author's budget is void; see BudgetObserver."""
        if author in self._book.given:
            self._book = self._book.without(author)
            _log.warning("the power budget of %s is void: %s", author, self._in_words())
            self._react()

    def change(self, request: BudgetRequest, areas: Collection[str]) -> None:
        """Set or withdraw the budget that a person gives on this host.

        Args:
            request: Requested budget.
            areas: Areas of current and earlier jobs.

        Raises:
            Refusal: The budget cannot be kept, has expired, or is for an unknown area.
        """
        is_host = request.area == self._power.area
        if not is_host:
            self.areas.check_known(request.area, self._power.area, areas)
        try:
            budget = self._asked(request)
            if not is_host:
                self._give_area(request.area, budget)
            elif budget is None:
                self.withdrawn(_HERE)
            else:
                self.given(_HERE, budget)
        except ValueError as error:
            raise Refusal(409, str(error)) from None

    def _asked(self, request: BudgetRequest) -> Budget | None:
        if request.watts is None:
            return None
        kind: BudgetKind = "peak" if request.window is None else "mean"
        serial = self._book.next_serial(_HERE)
        return Budget(request.watts, kind, request.window, request.until, serial)

    def _give_area(self, area: str, budget: Budget | None) -> None:
        if budget is not None and self._power.curve is None:
            raise ValueError(_NO_CURVE)
        self.areas.give(area, budget)

    # Output for people.

    @property
    def default(self) -> float | None:
        """Watts of the default budget; None for no limit."""
        return None if self._book.default is None else self._book.default.watts

    def in_force(self, granted: Collection[int]) -> BudgetInForce | None:
        """Return the budget in force, given the CPUs granted to jobs; None for no limit."""
        limit = self.limit()
        if limit is None:
            return None
        budget = limit.budget
        author = next((who for who, each in self._book.given.items() if each == budget), "default")
        return BudgetInForce(
            watts=budget.watts,
            kind=budget.kind,
            window=budget.window,
            until=budget.until,
            author=author,
            cores=cap_of(limit, len(granted), self._now()).cores,
        )

    def _in_words(self) -> str:
        budget = self._book.in_force(self._now())
        if budget is None:
            return "there is no limit now"
        what = "a peak" if budget.window is None else f"a mean over {budget.window:g} s"
        return f"{what} of {budget.watts:g} W is in force now"
