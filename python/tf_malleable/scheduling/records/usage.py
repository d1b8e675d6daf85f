# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Usage of a job: the number of CPUs it keeps busy, from samples of its CPU time. Pure."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Final

from tf_malleable.api.schema.tier_reads import TierReading

# Time between two samples.
SAMPLE_SECONDS: Final = 0.1
# Level of a job that uses all its cores, as far as is known.
FULL: Final = -1
SAMPLES: Final = 3
# CPUs. A job with less than this idle counts as using all its cores, and one that wants less as
# waiting for its input.
_BUSY = 0.2


@dataclass
class Usage:
    """The last three usage samples of a job. Times are in seconds, on any one clock.

    Attributes:
        cpu_seconds: CPU time at the last sample; None before the first.
        watts: Power drawn for the job in the last second, in watts; None if unknown.
        reading: Data-tier reads of the job; None if it reads through no tier.
    """

    cpu_seconds: float | None = None
    watts: float | None = None
    reading: TierReading | None = None
    _at: float | None = None
    _used: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    _wanted: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))

    def add(self, cpu_seconds: float, runnable: float, now: float) -> float:
        """Add a sample: CPU time used so far, and number of runnable threads lately.

        Returns:
            Seconds since the last sample if the job waited for its input, else 0.
        """
        waited = 0.0
        if self.cpu_seconds is not None and self._at is not None and now > self._at:
            used = max(0.0, cpu_seconds - self.cpu_seconds) / (now - self._at)
            self._used.append(used)
            self._wanted.append(max(used, runnable))
            if self._wanted[-1] < _BUSY:
                waited = now - self._at
        self.cpu_seconds, self._at = cpu_seconds, now
        return waited

    def note_watts(self, watts: float) -> None:
        """Note the power drawn for the job in the last second, in watts."""
        self.watts = watts

    def forget(self) -> None:
        """Discard all samples: the job was paused, or its processes have changed."""
        self._used.clear()
        self._wanted.clear()
        self._at = None

    @property
    def used(self) -> float | None:
        """Number of CPUs kept busy recently; None while unknown."""
        return sum(self._used) / len(self._used) if self._used else None

    @property
    def wanted(self) -> float | None:
        """Number of CPUs kept busy or waited for recently; None while unknown."""
        return sum(self._wanted) / len(self._wanted) if self._wanted else None

    def level(self, cores: int) -> int:
        """Return the CPUs wanted, in tenths; a change triggers a decision.

        The level is FULL for a job that uses all of its `cores`, however many, and for one of
        which nothing is known yet: more cores alone tell a policy nothing.
        """
        wanted = self.wanted
        return FULL if wanted is None or wanted >= cores - _BUSY else int(10 * wanted)
