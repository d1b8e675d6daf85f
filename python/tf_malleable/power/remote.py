# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where budgets come from, other than from people on this host."""

from __future__ import annotations

from typing import Final, Protocol

from tf_malleable.controller.ports import BudgetObserver
from tf_malleable.model.power import PowerCurve


class Remote(Protocol):
    """A source of budgets."""

    @property
    def problem(self) -> str | None:
        """Why nothing is heard of it; None if nothing is wrong."""

    async def start(self, observer: BudgetObserver, curve: PowerCurve | None) -> None:
        """Start to pass on budgets."""

    async def close(self) -> None:
        """Stop."""


class NoRemote:
    """No other source."""

    problem: str | None = None

    async def start(self, observer: BudgetObserver, curve: PowerCurve | None) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


NO_REMOTE: Final = NoRemote()
