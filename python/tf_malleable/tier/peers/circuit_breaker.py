# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Circuit breaker: no requests to a peer for a while after three misses in a row.

A peer that is slow once still saves the source a read. Opening the breaker at the first miss
doubled the bytes that were read from the source.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MISS_SECONDS: Final = 0.5
"""Silence of a peer that counts as one miss."""
MISSES: Final = 3
"""Number of misses in a row that open the breaker."""
OFF_SECONDS: Final = 30.0
"""Time for which an open breaker blocks requests to a peer."""


@dataclass
class Breaker:
    """Circuit breaker of one peer. The caller passes the current time.

    Attributes:
        misses: Number of misses in a row.
        off_until: Time from which the peer may be asked again.
        opened: Number of times that the breaker has opened.
    """

    misses: int = 0
    off_until: float = 0.0
    opened: int = 0

    def allows(self, now: float) -> bool:
        """Return whether the peer may be asked."""
        return now >= self.off_until

    def miss(self, now: float) -> bool:
        """Note that no answer came in time; return whether that opened the breaker."""
        self.misses += 1
        if self.misses < MISSES:
            return False
        self.misses, self.off_until = 0, now + OFF_SECONDS
        self.opened += 1
        return True

    def answer(self) -> None:
        """Note that an answer came."""
        self.misses = 0
