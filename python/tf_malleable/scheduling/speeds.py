# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measures a job's speed by number of cores, from its progress reports."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tf_malleable.model import Rate

# Just after a resize, steps under way and caches still reflect the old number of cores.
_SETTLING_SECONDS = 1.0
# Old measurements fade, because a job has phases.
_MEMORY_SECONDS = 60.0
_RECENT_SECONDS = 3.0
# After this time a number of cores may be tried again, or one bad measurement could keep
# a job from an idle core forever. A trial takes seconds.
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
    """A job's progress. Times are in seconds, on any one clock.

    Attributes:
        steps: Steps done so far; None before the first report.
        total: Total number of steps; None if unknown.
        recent: Recent steps per second; None before the second report.
    """

    steps: float | None = None
    total: float | None = None
    recent: float | None = None
    _at: float = 0.0
    _cores: int = 0
    _since: float = 0.0
    _sums: tuple[tuple[int, _Sum], ...] = ()

    def change(self, cores: int, now: float) -> Speedometer:
        """Return the state after a change to `cores` cores, possibly 0."""
        return replace(self, _cores=cores, _since=now) if cores != self._cores else self

    def report(self, steps: float, total: float | None, now: float) -> Speedometer:
        """Return the state after a report of the steps done and the total."""
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
        """Speeds for all numbers of cores that were measured, fewest cores first."""
        return self._measured(self._sums)

    @property
    def lately(self) -> tuple[Rate, ...]:
        """The same without numbers of cores last measured more than ten minutes ago."""
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
    """Return the measured speeds, completed by those learned from earlier jobs.

    All are sorted by number of cores.

    Steps of different jobs of the same name may differ in size, so only the shape of the
    learned curve counts: it is scaled to the measured speeds, and ignored if the two
    have no number of cores in common.
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
