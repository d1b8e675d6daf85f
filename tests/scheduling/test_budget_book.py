# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which budgets are taken, and which is in force."""

from __future__ import annotations

import pytest

from tf_malleable.model.power import Budget, PowerCurve
from tf_malleable.scheduling.energy.budget_book import BudgetBook, BudgetRefusedError

CURVE = PowerCurve(((0.0, 50.0), (1.0, 200.0)))
NOW = 1000.0


def taking(book: BudgetBook, budget: Budget, author: str = "ann") -> BudgetBook:
    return book.taking(author, budget, NOW, CURVE, least=80.0)


@pytest.mark.parametrize(
    ("budget", "complaint"),
    [
        (Budget(150.0, until=NOW, serial=6), "already expired"),
        (Budget(50.0, serial=9), "draws 50 W when it is idle"),
        (Budget(20.0, "mean", 60.0, serial=6), "must be more than that, not 20 W"),
        (Budget(79.0, serial=6), "80 W with one core busy"),
        (Budget(150.0, serial=3), "serial number 3, and 5 is already known"),
        (Budget(150.0, serial=5), "out of order"),
    ],
)
def test_what_is_refused_changes_nothing(budget, complaint):
    book = taking(BudgetBook(), Budget(100.0, serial=5))
    with pytest.raises(BudgetRefusedError, match=complaint):
        taking(book, budget)
    assert book.in_force(NOW) == Budget(100.0, serial=5)


def test_the_smaller_of_two_authors_budgets_binds():
    book = taking(taking(BudgetBook(), Budget(150.0), "ann"), Budget(120.0), "organisation")
    assert book.in_force(NOW) == Budget(120.0)
    assert book.without("organisation").in_force(NOW) == Budget(150.0)
    # A broker repeats what it has retained; another one with that number is refused.
    withdrawn = book.without("organisation")
    assert taking(withdrawn, Budget(120.0), "organisation") == book
    with pytest.raises(BudgetRefusedError, match="out of order"):
        taking(withdrawn, Budget(125.0), "organisation")
    assert withdrawn.next_serial("organisation") == 1


def test_an_expired_budget_falls_to_the_default():
    safe = Budget(90.0)
    book = taking(BudgetBook(safe), Budget(150.0, until=NOW + 10))
    assert book.in_force(NOW + 9.9) == Budget(150.0, until=NOW + 10)
    assert book.in_force(NOW + 10) == safe
    assert book.pruned(NOW + 10).given == {}
    assert BudgetBook().in_force(NOW) is None
