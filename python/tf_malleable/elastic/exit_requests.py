# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Exit and restart requests to a process of a training."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Restart:
    """Where a process continues after a loss.

    Attributes:
        lineage: Lineage of the training.
        step: Step to continue with.
        giver: Id of the process that has the sum of the step before; None if no process needs it.
    """

    lineage: str
    step: int
    giver: str | None


@dataclass
class Ending:
    """Reasons for which a process must end.

    Attributes:
        finished: True if the training is over.
        leaving: True if this process is no longer a member.
        last: True if it was the last member.
        exit_code: Exit code for the end of the process.
        reason: Why the process was expelled, for the user; empty if it was not.
    """

    finished: bool = False
    leaving: bool = False
    last: bool = False
    exit_code: int = 0
    reason: str = ""

    @property
    def is_near(self) -> bool:
        """Whether this process takes part in no more steps."""
        return self.finished or self.leaving
