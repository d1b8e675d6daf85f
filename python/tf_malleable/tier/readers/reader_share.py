# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader share: how much of the daemon's time one user's readers may take. No I/O."""

from __future__ import annotations


class Share:
    """One user's share of a resource, in seconds of work: a token bucket that may be overdrawn."""

    def __init__(self, rate: float, burst: float) -> None:
        """Create a full share.

        Args:
            rate: Seconds of work per second, in the long run.
            burst: Seconds of work that may be done at once after a rest.
        """
        self._rate, self._burst = rate, burst
        self._left, self._at = burst, 0.0

    def spend(self, seconds: float, now: float) -> float:
        """Note that work was done; return for how many seconds no more may be done.

        Args:
            seconds: Duration of the work.
            now: Current time of the monotonic clock, in seconds.
        """
        since = max(0.0, now - self._at)
        self._left = min(self._burst, self._left + since * self._rate) - seconds
        self._at = now
        return max(0.0, -self._left / self._rate)
