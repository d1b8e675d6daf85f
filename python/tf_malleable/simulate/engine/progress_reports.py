# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Times at which the agent of a simulated job reports progress."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

INTERVAL_SECONDS: Final = 1.0
# A remaining time within the rounding error, in intervals.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Reports:
    """Reports at regular times, different for each job.

    Attributes:
        first: Earliest time of the first report, in seconds of virtual time.
    """

    first: float

    def until(self, now: float) -> float:
        """Return the time at which the last report was due."""
        return self._at(math.floor((now - self.first) / INTERVAL_SECONDS + _NOTHING))

    def since(self, now: float) -> float:
        """Return the time at which the next report is due, which may be now."""
        return self._at(math.ceil((now - self.first) / INTERVAL_SECONDS - _NOTHING))

    def _at(self, number: int) -> float:
        return self.first + number * INTERVAL_SECONDS
