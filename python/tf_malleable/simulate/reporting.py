# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""When the agent of a simulated job reports its progress."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

INTERVAL_SECONDS: Final = 1.0
# A rest of time that is rounding error.
_NOTHING = 1e-9


@dataclass(frozen=True)
class Reports:
    """Reports at regular times, which no two jobs share.

    Attributes:
        first: When the first may be sent, in seconds of virtual time.
    """

    first: float

    def until(self, now: float) -> float:
        """Return when the last one was due."""
        return self._at(math.floor((now - self.first) / INTERVAL_SECONDS + _NOTHING))

    def since(self, now: float) -> float:
        """Return when the next one is due, which may be now."""
        return self._at(math.ceil((now - self.first) / INTERVAL_SECONDS - _NOTHING))

    def _at(self, number: int) -> float:
        return self.first + number * INTERVAL_SECONDS
