# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rate limiter for many callers, with an average rate and a burst."""

from __future__ import annotations


class Rates:
    """Generic cell rate algorithm (ATM Forum, "Traffic Management 4.0", 1996), by caller.

    The state of a caller is one number: the time at which it would be done if it did everything
    at the rate.
    """

    def __init__(self, rate: float, burst: int) -> None:
        """Create a rate limiter.

        Args:
            rate: Allowed events per second and caller.
            burst: Allowed events at once.
        """
        self._seconds = 1.0 / rate
        self._burst = burst * self._seconds
        self._through: dict[object, float] = {}

    def wait(self, who: object, now: float) -> float:
        """Return the seconds for which the next event is too early, 0 if it is not."""
        return max(0.0, self._through.get(who, now) + self._seconds - now - self._burst)

    def delay(self, who: object, now: float) -> float:
        """Count one event; return the seconds by which it is too early, 0 if it is not."""
        through = max(now, self._through.get(who, now)) + self._seconds
        self._through[who] = through
        return max(0.0, through - now - self._burst)

    def charge(self, who: object, seconds: float) -> None:
        """Add so many seconds to the time at which a just counted caller is done."""
        if who in self._through:
            self._through[who] += seconds

    def admits(self, who: object, now: float) -> bool:
        """Return whether one more event is not too early, and count it if so."""
        through = max(now, self._through.get(who, now)) + self._seconds
        if through - now > self._burst:
            return False
        self._through[who] = through
        return True

    def forget(self, now: float) -> None:
        """Forget the callers that have been inactive for so long that their state has no effect."""
        for who in [who for who, through in self._through.items() if through <= now]:
            del self._through[who]
