# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CPUs that a job keeps busy, from samples of its CPU time. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from statistics import fmean

_SAMPLES = 3
# CPUs. With less than this idle a job uses all it has.
_BUSY = 0.2


@dataclass
class Usage:
    """The last three samples. Times are seconds on any one clock.

    Attributes:
        cpu_seconds: CPU time used when last sampled; None before.
    """

    cpu_seconds: float | None = None
    _at: float | None = None
    _used: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))
    _wanted: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def add(self, cpu_seconds: float, runnable: int, now: float) -> None:
        """Take note of the CPU time used so far and the threads that want a CPU now."""
        if self.cpu_seconds is not None and self._at is not None and now > self._at:
            used = max(0.0, cpu_seconds - self.cpu_seconds) / (now - self._at)
            self._used.append(used)
            self._wanted.append(max(used, float(runnable)))
        self.cpu_seconds, self._at = cpu_seconds, now

    def forget(self) -> None:
        """Begin anew: the job was paused, or is made of other processes now."""
        self._used.clear()
        self._wanted.clear()
        self._at = None

    @property
    def used(self) -> float | None:
        """CPUs kept busy lately; None while not known."""
        return fmean(self._used) if self._used else None

    @property
    def wanted(self) -> float | None:
        """CPUs kept busy or waited for lately; None while not known."""
        return fmean(self._wanted) if self._wanted else None

    def level(self, cores: int) -> int | None:
        """Return the CPUs wanted, in tenths: a change of it is worth a new decision.

        How busy a job is that uses all of its `cores` makes no difference.
        """
        wanted = self.wanted
        if wanted is None:
            return None
        return int(10 * (wanted if wanted < cores - _BUSY else cores))
