# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader share: how much of the daemon's time readers take, and when they are heard. No I/O."""

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


class MessagePace:
    """Pace of a reader's messages, so that about as many as wanted are heard at a time."""

    def __init__(self, wanted: int, least: float, longest: float) -> None:
        """Create the pace of a reader of which nothing is known.

        Args:
            wanted: Number of messages to be heard at a time.
            least: Shortest pause in seconds.
            longest: Longest pause in seconds.
        """
        self._wanted, self._least, self._longest = wanted, least, longest
        self._pause = least

    def pause_after(self, heard: int) -> float:
        """Return for how many seconds no message is to be heard.

        Args:
            heard: Number of messages that came in the last pause.
        """
        pause = self._pause * self._wanted / max(1, heard)
        self._pause = min(max(pause, self._least), self._longest)
        return self._pause
