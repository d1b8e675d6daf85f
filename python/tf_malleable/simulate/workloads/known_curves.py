# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Speed-up curves of real jobs, from their measured speeds. Pure."""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tf_malleable.api.schema.history import JobRecord
from tf_malleable.model import Rate
from tf_malleable.policies.queues.speedup import Curve, fit
from tf_malleable.scheduling.records.lessons import Learned, blend
from tf_malleable.scheduling.records.speeds import with_learned

# Speeds for fewer numbers of cores do not show how a job scales.
_LEAST = 2
# Cores. A mean this close to a whole number counts as that number.
_NEARLY = 0.05
# Fraction of the time between the first and the last step.
_MUCH_IDLE = 0.2

_Key = tuple[str, ...]


@dataclass(frozen=True)
class KnownCurve:
    """A curve through measured speeds: linear between them, and by a law below and above.

    The speed-up is at most the number of cores. Higher values are mostly noise: a job that
    waited for input just when it was measured with few cores.

    Attributes:
        rates: Measured speeds, fewest cores first; at least one.
        law: Curve that fits the speeds best; it is scaled to the nearest measured speed.
    """

    rates: tuple[Rate, ...]
    law: Curve

    def speedup(self, cores: int) -> float:
        """Return the speed relative to one core; 0 on no cores."""
        return min(float(cores), self._speed(cores) / self._speed(1)) if cores > 0 else 0.0

    def _speed(self, cores: int) -> float:
        above = bisect_right(self.rates, (cores, math.inf))
        left, right = self.rates[max(0, above - 1)], self.rates[min(above, len(self.rates) - 1)]
        if left == right or left.cores == cores:
            scale = self.law.speedup(cores) / self.law.speedup(left.cores)
            return scale * left.steps_per_second
        part = (cores - left.cores) / (right.cores - left.cores)
        return left.steps_per_second + part * (right.steps_per_second - left.steps_per_second)


class KnownCurves:
    """Speed-up curves of the jobs of a history.

    A job's own speeds count first. Beyond them, and for a job with fewer than two, the speeds of
    jobs of the same name count, of the same user if there are any. Their steps may differ in
    size, so only ratios of speeds of one and the same job, or of jobs of the same user and
    command, count.
    """

    def __init__(self, jobs: Iterable[JobRecord]) -> None:
        of_program: defaultdict[_Key, list[tuple[Rate, ...]]] = defaultdict(list)
        of_command: defaultdict[_Key, tuple[Learned, ...]] = defaultdict(tuple)
        for job in sorted(jobs, key=lambda job: job.ended):
            rates = own_rates(job)
            if len(rates) >= _LEAST:
                for key in _program_keys(job):
                    of_program[key].append(rates)
            if job.command:
                key = _command_key(job)
                of_command[key] = blend(of_command[key], rates)
        self._of_command = {
            key: tuple(Rate(each.cores, each.steps_per_second) for each in learned)
            for key, learned in of_command.items()
        }
        of_commands: defaultdict[_Key, list[tuple[Rate, ...]]] = defaultdict(list)
        for (user, name, *_), rates in self._of_command.items():
            if len(rates) >= _LEAST:
                of_commands[user, name].append(rates)
                of_commands[name,].append(rates)
        # Speeds of single jobs count first.
        shown = {**of_commands, **of_program}
        self._of_program = {key: _merged(each) for key, each in shown.items()}

    def of(self, job: JobRecord) -> KnownCurve | None:
        """Return a job's curve; None if speeds are known for fewer than two numbers of cores."""
        rates = own_rates(job)
        known = (self._of_program.get(key) for key in _program_keys(job))
        shown = next(filter(None, known), ())
        if len(rates) >= _LEAST:
            rates = with_learned(rates, shown)
        else:
            rates = shown or self._of_command.get(_command_key(job), ())
        return KnownCurve(rates, fit(rates)) if len(rates) >= _LEAST else None


def _program_keys(job: JobRecord) -> tuple[_Key, _Key]:
    return (job.user, program(job)), (program(job),)


def _command_key(job: JobRecord) -> _Key:
    return job.user, program(job), *job.command


def _merged(shown: Iterable[tuple[Rate, ...]]) -> tuple[Rate, ...]:
    """Return the mean of several jobs' speeds, each scaled to those before it.

    Jobs with the most numbers of cores go first. A job that has none in common with the previous
    ones is ignored.
    """
    means: dict[int, tuple[float, int]] = {}
    for rates in sorted(shown, key=len, reverse=True):
        common = [rate for rate in rates if rate.cores in means]
        if means and not common:
            continue
        scale = (
            sum(means[rate.cores][0] for rate in common)
            / sum(rate.steps_per_second for rate in common)
            if common
            else 1.0
        )
        for cores, speed in rates:
            mean, count = means.get(cores, (0.0, 0))
            means[cores] = mean + (scale * speed - mean) / (count + 1), count + 1
    return tuple(Rate(cores, means[cores][0]) for cores in sorted(means))


def program(job: JobRecord) -> str:
    """Return a job's name, without its index if it is one of an array."""
    name, bracket, index = job.name.rpartition("[")
    is_one = bool(name and bracket) and index.endswith("]") and index[:-1].isdecimal()
    return name if is_one else job.name


def own_rates(job: JobRecord) -> tuple[Rate, ...]:
    """Return a job's own speeds while it computed, fewest cores first, without impossible ones.

    Speeds of a job that often waited for input include the waits. Its speed without waits is
    known if the job had the same number of cores nearly all the time.
    """
    idle, middle = job.idle_seconds or 0.0, _middle(job)
    if idle > _MUCH_IDLE * middle:
        return _without_waits(job, middle - idle)
    speeds = {each.cores: each.steps_per_second for each in job.speeds or ()}
    return tuple(
        Rate(cores, speeds[cores])
        for cores in sorted(speeds)
        if cores > 0 and 0 < speeds[cores] < math.inf
    )


def _middle(job: JobRecord) -> float:
    """Return the seconds from a job's first to its last step."""
    return job.service_seconds - (job.first_step_seconds or 0.0) - (job.last_step_seconds or 0.0)


def _without_waits(job: JobRecord, seconds: float) -> tuple[Rate, ...]:
    if not job.steps or seconds <= 0:
        return ()
    cores = job.core_seconds / job.service_seconds
    # A resize just after the start, or just before the end, makes no difference.
    if job.resizes > 1 or round(cores) < 1 or abs(cores - round(cores)) > _NEARLY:
        return ()
    return (Rate(round(cores), job.steps / seconds),)
