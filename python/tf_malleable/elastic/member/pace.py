# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pace of a member: its speed, and the pauses that changes of the members cost it."""

from __future__ import annotations

import time
from collections import deque
from statistics import median
from typing import Final

_SAMPLES: Final = 15
# The first steps of a process trace functions and warm up.
_FEWEST: Final = 5


class Pace:
    """Measures the phases of a member's steps; the member calls a method at the start of each."""

    def __init__(self) -> None:
        self._speeds: deque[float] = deque(maxlen=_SAMPLES)
        self._usual: deque[float] = deque(maxlen=_SAMPLES)
        self._number = 0
        self._began = self._computing = self._reducing = 0.0
        self._begin_seconds = self._cpus = 0.0
        self._count = 0
        self._is_again = False

    def begins(self) -> None:
        """Note a call of begin()."""
        self._began = time.monotonic()

    def computes(self, count: int, *, again: bool = False) -> None:
        """Note that a turn of `count` shards begins, of a new step or of the same one again."""
        now = time.monotonic()
        self._computing, self._count, self._is_again = now, count, again
        if not again:
            self._begin_seconds = now - self._began

    def reduces(self) -> None:
        """Note a call of reduce()."""
        now = time.monotonic()
        if self._count:
            self._speeds.append(self._count / max(now - self._computing, 1e-6))
        self._count = 0
        if not self._is_again:
            self._reducing = now

    def summed(self, number: int) -> float | None:
        """Note the sum of a step in a generation; return the pause if the generation is new.

        The pause is the time in begin() and reduce(), and for computing again, less the usual
        time of these, in seconds. None if the generation is not new, or nothing was measured
        before it.
        """
        spent = self._begin_seconds + time.monotonic() - self._reducing
        is_new, was, self._number = number != self._number, self._number, number
        if not is_new:
            self._usual.append(spent)
            return None
        return max(0.0, spent - median(self._usual)) if was and self._usual else None

    def use_cpus(self, cpus: float) -> None:
        """Note the number of CPUs; discard the measured speeds if it has changed."""
        if cpus != self._cpus:
            self._cpus = cpus
            self._speeds.clear()

    def speed(self) -> float | None:
        """Return the speed in shards a second; None if too few steps were measured."""
        return median(self._speeds) if len(self._speeds) >= _FEWEST else None
