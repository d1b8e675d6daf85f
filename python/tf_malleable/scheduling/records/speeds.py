# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Speed of a job by number of cores, measured from its progress reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

from tf_malleable.model import Rate
from tf_malleable.policies.queues.speedup import fit

# Just after a resize, steps under way and caches still reflect the old number of cores.
SETTLING_SECONDS: Final = 1.0
# Old measurements fade, because a job has phases.
_MEMORY_SECONDS = 60.0
# Steps that end while a job waits for this part of the time may be done elsewhere, as on a GPU.
_ELSEWHERE = 0.9
_RECENT_SECONDS = 3.0
# After this time a number of cores may be tried again; otherwise one bad measurement could keep
# a job from an idle core forever. A trial takes seconds.
_TRUSTED_SECONDS = 600.0


class _Sum(NamedTuple):
    """Measurement with one number of cores; `rate` is None if no steps were done."""

    steps: float = 0.0
    seconds: float = 0.0
    at: float = 0.0
    rate: Rate | None = None

    def add(self, steps: float, seconds: float, now: float, cores: int) -> _Sum:
        steps, seconds = self.steps + steps, self.seconds + seconds
        fade = min(1.0, _MEMORY_SECONDS / seconds)
        rate = Rate(cores, _rounded(steps / seconds)) if steps > 0 else None
        return _Sum(steps * fade, seconds * fade, now, rate)


@dataclass(frozen=True)
class Speedometer:
    """Progress and speeds of a job. Times are in seconds, on any one clock.

    Attributes:
        steps: Steps done so far; None before the first report.
        total: Total number of steps; None if unknown.
        recent: Recent steps per second; None before the second report.
        regions: Parallel regions so far of a job that reports no steps; they measure its speeds.
    """

    steps: float | None = None
    total: float | None = None
    recent: float | None = None
    _at: float = 0.0
    _cores: int = 0
    _since: float = 0.0
    _sums: tuple[tuple[int, _Sum], ...] = ()
    regions: float | None = None
    # Seconds since the last steps, and whether these ended while the job waited.
    _waited: float = 0.0
    _is_elsewhere: bool = False

    def change(self, cores: int, now: float) -> Speedometer:
        """Return the state after a change to `cores` cores, possibly 0."""
        if cores == self._cores:
            return self
        return replace(self, _cores=cores, _since=now, _waited=0.0)

    def report(
        self, steps: float, total: float | None, now: float, waited: float = 0.0
    ) -> Speedometer:
        """Return the state after a report.

        Args:
            steps: Steps done so far.
            total: Total number of steps; None if unknown.
            now: Time of the report.
            waited: Seconds since the last report in which the job used no CPU. They count only if
                its steps end in such seconds, too; else it waited for its input.
        """
        if self.regions is not None:
            fresh = Speedometer(_cores=self._cores, _since=self._since)
            return fresh.report(steps, total, now, waited)
        # The first steps began at an unknown time after the previous report.
        if not self.steps or steps < self.steps:
            return replace(self, steps=steps, total=total, _at=now)
        done, seconds = steps - self.steps, now - self._at
        if seconds <= 0:
            return replace(self, steps=steps, total=total)
        weight = min(1.0, seconds / _RECENT_SECONDS)
        rate = done / seconds
        recent = rate if self.recent is None else self.recent + weight * (rate - self.recent)
        sums = dict(self._sums)
        # The last steps ended at an unknown time after the previous report, so this
        # measurement counts only if there is no other.
        has_ended = total is not None and steps >= total
        is_settled = self._cores and self._at >= self._since + SETTLING_SECONDS
        waits = waited >= _ELSEWHERE * seconds
        counted = max(0.0, seconds - waited)
        if waits and done > 0:
            # Once may be chance: the last tenth of a second is that in which it computes again.
            counted = seconds + self._waited if self._is_elsewhere else 0.0
        if is_settled and counted and not (has_ended and self.knows(self._cores)):
            sums[self._cores] = sums.get(self._cores, _Sum()).add(done, counted, now, self._cores)
        return replace(
            self,
            steps=steps,
            total=total,
            recent=recent,
            _at=now,
            _sums=tuple(sorted(sums.items())),
            _waited=0.0 if done > 0 or not is_settled else self._waited + waited,
            _is_elsewhere=waits if done > 0 else self._is_elsewhere,
        )

    def report_regions(self, regions: float, now: float, waited: float = 0.0) -> Speedometer:
        """Return the state after a report of the parallel regions, which count without steps.

        Args:
            regions: Parallel regions so far.
            now: Time of the report.
            waited: As for report().
        """
        if self.steps is not None:
            return self
        before = replace(self, steps=self.regions, regions=None)
        measured = before.report(regions, None, now, waited)
        return replace(measured, steps=None, recent=None, regions=regions)

    def knows(self, cores: int) -> bool:
        """Return whether the speed with a number of cores was measured."""
        return any(known == cores for known, _ in self._sums)

    @property
    def work(self) -> float | None:
        """What the speeds are of: steps, or else parallel regions; None before the first report."""
        return self.regions if self.steps is None else self.steps

    @property
    def is_done(self) -> bool:
        """Whether all steps are done, if the total is known."""
        return self.total is not None and self.steps is not None and self.steps >= self.total

    @property
    def reported_at(self) -> float:
        """Time of the last report."""
        return self._at

    @property
    def changed_at(self) -> float:
        """Time of the last change of the number of cores."""
        return self._since

    @property
    def rates(self) -> tuple[Rate, ...]:
        """Speeds for all measured numbers of cores, fewest cores first."""
        return tuple(total.rate for _, total in self._sums if total.rate)

    @cached_property
    def lately(self) -> tuple[Rate, ...]:
        """Speeds for the numbers of cores that were measured in the last ten minutes."""
        trusted = self._at - _TRUSTED_SECONDS
        return tuple(total.rate for _, total in self._sums if total.rate and total.at >= trusted)


def _rounded(speed: float) -> float:
    """Return a speed with four digits: more are noise, and would make all decisions differ."""
    return float(f"{speed:.4g}")


@lru_cache(maxsize=16384)
def with_learned(measured: tuple[Rate, ...], learned: tuple[Rate, ...]) -> tuple[Rate, ...]:
    """Return the measured speeds, completed by those learned from earlier jobs.

    All are sorted by number of cores.

    Steps of different jobs of the same name may differ in size, so only the shape of the
    learned curve counts: it is scaled to the measured speeds. If the two have no number of cores in
    common, it counts if it has a shape and the measured speed has none, and is scaled by its fit.
    """
    if not measured:
        return learned
    own = {rate.cores: rate.steps_per_second for rate in measured}
    earlier = {rate.cores: rate.steps_per_second for rate in learned}
    common = own.keys() & earlier.keys()
    if common:
        scale = sum(own[cores] for cores in common) / sum(earlier[cores] for cores in common)
    elif len(own) == 1 and len(earlier) > 1:
        curve = fit(learned)
        scale = sum(own.values()) / sum(1.0 / curve.seconds(cores) for cores in own)
    else:
        return measured
    scaled = {cores: _rounded(speed * scale) for cores, speed in earlier.items()}
    return tuple(Rate(cores, speed) for cores, speed in sorted({**scaled, **own}.items()))
