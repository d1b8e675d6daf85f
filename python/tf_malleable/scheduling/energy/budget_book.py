# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Budget in force among those that were given. Pure.

A budget replaces the previous one of the same author if its serial number is higher. The budget
of a person on the host and that of the organisation both bind: the smaller one is in force.
Without any budget, the safe default is in force.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tf_malleable.model.power import Budget, PowerCurve


class BudgetRefusedError(ValueError):
    """A budget is refused; the message is one sentence."""


@dataclass(frozen=True)
class BudgetBook:
    """The budgets of one host.

    Attributes:
        default: Budget in force if there is no other; None for no limit.
        given: Last accepted budget of each author.
        newest: Budget of each author with the highest serial number, in force or not.
    """

    default: Budget | None = None
    given: dict[str, Budget] = field(default_factory=dict)
    newest: dict[str, Budget] = field(default_factory=dict)

    def taking(
        self, author: str, budget: Budget, now: float, curve: PowerCurve, least: float
    ) -> BudgetBook:
        """Return the book with another budget of an author.

        Args:
            author: Author of the budget.
            budget: The budget.
            now: Unix time in seconds.
            curve: Power curve of the host.
            least: Power of the host with one core busy, in watts.

        Raises:
            BudgetRefusedError: It has expired, is older than a known one, or cannot be kept.
        """
        if budget.is_over(now):
            raise BudgetRefusedError("the budget has already expired")
        newest = self.newest.get(author)
        # The same budget again is not out of order: a broker repeats retained messages.
        if newest is not None and budget.serial <= newest.serial and budget != newest:
            raise BudgetRefusedError(
                f"the budget has serial number {budget.serial}, and {newest.serial} is already"
                " known: it is out of order"
            )
        if budget.watts <= curve.idle:
            raise BudgetRefusedError(
                f"this host draws {curve.idle:.0f} W when it is idle, so a budget must be more"
                f" than that, not {budget.watts:g} W"
            )
        if budget.kind == "peak" and budget.watts < least:
            raise BudgetRefusedError(
                f"this host draws {least:.0f} W with one core busy, so a peak must be at least"
                f" that, not {budget.watts:g} W; a mean may be less"
            )
        return replace(
            self,
            given={**self.given, author: budget},
            newest={**self.newest, author: budget},
        )

    def next_serial(self, author: str) -> int:
        """Return the serial number of an author's next budget."""
        return self.newest[author].serial + 1 if author in self.newest else 1

    def without(self, author: str) -> BudgetBook:
        """Return the book without the budget of an author."""
        return replace(self, given={who: each for who, each in self.given.items() if who != author})

    def pruned(self, now: float) -> BudgetBook:
        """Return the book without budgets that have expired."""
        if not any(each.is_over(now) for each in self.given.values()):
            return self
        return replace(
            self, given={who: each for who, each in self.given.items() if not each.is_over(now)}
        )

    def in_force(self, now: float) -> Budget | None:
        """Return the budget in force at a Unix time; None for no limit.

        Of several that bind, the one with the fewest watts; of these, a peak, which is stricter.
        """
        binding = [each for each in self.given.values() if not each.is_over(now)]
        if not binding:
            return self.default
        return min(binding, key=lambda each: (each.watts, each.kind == "mean"))
