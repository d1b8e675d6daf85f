# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How fast a job trains with how many cores, from its progress reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tf_malleable.model import Rate

# After a change of cores, steps already begun and caches speak of the old number.
_SETTLING_SECONDS = 1.0
# Old measurements fade: a job's phases differ.
_MEMORY_SECONDS = 60.0
_RECENT_SECONDS = 3.0
# After so long a number of cores may be tried again: for a job that one bad measurement
# kept from a core that is idle. Trying takes seconds.
_TRUSTED_SECONDS = 600.0


@dataclass(frozen=True)
class _Sum:
    steps: float = 0.0
    seconds: float = 0.0
    at: float = 0.0

    def add(self, steps: float, seconds: float, now: float) -> _Sum:
        fade = min(1.0, _MEMORY_SECONDS / (self.seconds + seconds))
        return _Sum((self.steps + steps) * fade, (self.seconds + seconds) * fade, now)


@dataclass(frozen=True)
class Speedometer:
    """A job's progress, report by report. Times are seconds on any one clock.

    Attributes:
        steps: Done so far, None before the first report that has any.
        total: Steps it will have done at its end, None if unknown.
        recent: Steps a second lately, None before there are two reports.
    """

    steps: float | None = None
    total: float | None = None
    recent: float | None = None
    _at: float = 0.0
    _cores: int = 0
    _since: float = 0.0
    _sums: tuple[tuple[int, _Sum], ...] = ()

    def change(self, cores: int, now: float) -> Speedometer:
        """Return it from now on for another number of cores; 0 is none."""
        return replace(self, _cores=cores, _since=now) if cores != self._cores else self

    def report(self, steps: float, total: float | None, now: float) -> Speedometer:
        """Return it after a report of the steps done and to be done in all."""
        if self.steps is None or steps < self.steps:
            return replace(self, steps=steps, total=total, _at=now)
        done, seconds = steps - self.steps, now - self._at
        if seconds <= 0:
            return replace(self, steps=steps, total=total)
        weight = min(1.0, seconds / _RECENT_SECONDS)
        rate = done / seconds
        recent = rate if self.recent is None else self.recent + weight * (rate - self.recent)
        sums = dict(self._sums)
        if self._cores and self._at >= self._since + _SETTLING_SECONDS:
            sums[self._cores] = sums.get(self._cores, _Sum()).add(done, seconds, now)
        return replace(
            self,
            steps=steps,
            total=total,
            recent=recent,
            _at=now,
            _sums=tuple(sorted(sums.items())),
        )

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Measured speeds, fewest cores first; none for counts never tried."""
        return self._measured(self._sums)

    @property
    def lately(self) -> tuple[Rate, ...]:
        """The same without counts that were last tried more than ten minutes ago."""
        trusted = self._at - _TRUSTED_SECONDS
        return self._measured([each for each in self._sums if each[1].at >= trusted])

    @staticmethod
    def _measured(sums: Iterable[tuple[int, _Sum]]) -> tuple[Rate, ...]:
        return tuple(
            Rate(cores, total.steps / total.seconds)
            for cores, total in sums
            if total.steps > 0 and total.seconds > 0
        )


def with_learned(measured: tuple[Rate, ...], learned: tuple[Rate, ...]) -> tuple[Rate, ...]:
    """Return measured speeds, completed by those learned from earlier jobs.

    Each has the fewest cores first.

    Jobs of one name may take steps of different sizes, so only the shape of the
    learned curve counts: it is scaled to the measured speeds, and left out where
    the two have no number of cores in common.
    """
    if not measured:
        return learned
    own = {rate.cores: rate.steps_per_second for rate in measured}
    earlier = {rate.cores: rate.steps_per_second for rate in learned}
    common = own.keys() & earlier.keys()
    if not common:
        return measured
    scale = sum(own[cores] for cores in common) / sum(earlier[cores] for cores in common)
    scaled = {cores: speed * scale for cores, speed in earlier.items()}
    return tuple(Rate(cores, speed) for cores, speed in sorted({**scaled, **own}.items()))
