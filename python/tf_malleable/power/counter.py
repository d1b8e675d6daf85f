# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Joules from counters that wrap and may be reset, and from readings in watts. Pure."""

from __future__ import annotations

from typing import Final

MOST_WATTS: Final = 2000.0
"""Power that no package or accelerator reaches; a higher reading means a reset counter."""


# A counter may grow in steps, and two readings may lie on both sides of one.
_STEP_SECONDS = 0.5


class EnergyCounter:
    """A counter of microjoules that restarts at 0 after its range.

    A difference that would mean more than `most_watts`, with or without a wrap, was a reset: the
    energy since the last reading is then unknown. The same holds if the counter may have wrapped
    more than once.

    Args:
        span: Range of the counter in microjoules; None if it does not wrap.
        most_watts: Maximum power of everything that it counts, in watts.
    """

    def __init__(self, span: float | None, most_watts: float = MOST_WATTS) -> None:
        self._span = span
        self._most = most_watts
        self._last: tuple[float, float] | None = None

    def add(self, counted: float, at: float) -> float | None:
        """Return the joules since the last reading; None if unknown, as after the first.

        Args:
            counted: Value of the counter in microjoules.
            at: Time of the reading, in seconds on a clock that stops during a suspend.
        """
        last, self._last = self._last, (counted, at)
        if last is None:
            return None
        seconds = at - last[1]
        if seconds < 0:
            return None
        most = self._most * (seconds + _STEP_SECONDS)
        if self._span is not None and most > self._span / 1e6:
            return None
        joules = (counted - last[0]) / 1e6
        if joules < 0 and self._span is not None:
            joules += self._span / 1e6
        return joules if 0 <= joules <= most else None

    def forget(self) -> None:
        """Forget the last reading: the energy since then is unknown."""
        self._last = None


class WattsOverTime:
    """Joules from readings of watts: the mean of two readings applies to the time between them.

    Args:
        most_seconds: Maximum time between two readings; the energy between others is unknown.
    """

    def __init__(self, most_seconds: float = 30.0) -> None:
        self._most = most_seconds
        self._last: tuple[float, float] | None = None

    def add(self, watts: float, at: float) -> float | None:
        """Return the joules since the last reading; None if unknown, as after the first."""
        last, self._last = self._last, (watts, at)
        if last is None or not 0 <= at - last[1] <= self._most:
            return None
        return (watts + last[0]) / 2 * (at - last[1])

    def forget(self) -> None:
        """Forget the last reading."""
        self._last = None
