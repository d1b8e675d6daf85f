# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How often each of many callers may do something, on average and in a burst."""

from __future__ import annotations


class Rates:
    """The generic cell rate algorithm (ATM Forum, "Traffic Management 4.0", 1996), by caller.

    A caller has one number: when it would be through if it did everything at the rate.
    """

    def __init__(self, rate: float, burst: int) -> None:
        """Create it.

        Args:
            rate: How often a second.
            burst: How often at once.
        """
        self._seconds = 1.0 / rate
        self._burst = burst * self._seconds
        self._through: dict[object, float] = {}

    def delay(self, who: object, now: float) -> float:
        """Count one more, and return the seconds by which it comes too early; 0 if it does not."""
        through = max(now, self._through.get(who, now)) + self._seconds
        self._through[who] = through
        return max(0.0, through - now - self._burst)

    def charge(self, who: object, seconds: float) -> None:
        """Let a caller who has just been counted be through so many seconds later."""
        if who in self._through:
            self._through[who] += seconds

    def admits(self, who: object, now: float) -> bool:
        """Return whether one more is not too early, and count it if so."""
        through = max(now, self._through.get(who, now)) + self._seconds
        if through - now > self._burst:
            return False
        self._through[who] = through
        return True

    def forget(self, now: float) -> None:
        """Forget those that have done nothing for so long that it makes no difference."""
        for who in [who for who, through in self._through.items() if through <= now]:
            del self._through[who]
