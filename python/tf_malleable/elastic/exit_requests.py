# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How a process goes on, or does not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Restart:
    """Where to go on after a loss.

    Attributes:
        lineage: Of the training.
        step: With which step.
        giver: Who has the sum of the one before; None if nobody needs it.
    """

    lineage: str
    step: int
    giver: str | None


@dataclass
class Ending:
    """Why a process must end.

    Attributes:
        finished: The training is over.
        leaving: This process is no member any more.
        last: It was the last one.
        exit_code: For its end.
        reason: Why it was sent away, for people.
    """

    finished: bool = False
    leaving: bool = False
    last: bool = False
    exit_code: int = 0
    reason: str = ""

    @property
    def is_near(self) -> bool:
        """Whether this process takes part in nothing any more."""
        return self.finished or self.leaving
