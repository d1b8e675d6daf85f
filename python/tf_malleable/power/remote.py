# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Remote sources of budgets, in addition to people on this host."""

from __future__ import annotations

from typing import Final, Protocol

from tf_malleable.controller.ports import BudgetObserver
from tf_malleable.model.power import PowerCurve


class Remote(Protocol):
    """A remote source of budgets."""

    @property
    def problem(self) -> str | None:
        """Why the source cannot be reached; None if nothing is wrong."""

    async def start(self, observer: BudgetObserver, curve: PowerCurve | None) -> None:
        """Start passing on budgets."""

    async def close(self) -> None:
        """Stop passing on budgets."""


class NoRemote:
    """No remote source."""

    problem: str | None = None

    async def start(self, observer: BudgetObserver, curve: PowerCurve | None) -> None:
        """Do nothing."""

    async def close(self) -> None:
        """Do nothing."""


NO_REMOTE: Final = NoRemote()
