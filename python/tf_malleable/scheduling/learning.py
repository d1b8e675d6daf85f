# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What earlier jobs teach about the next: speeds by name, run times by command. Pure."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tf_malleable.model import Rate
from tf_malleable.scheduling.lru import Lru
from tf_malleable.scheduling.record import Record

_FADING = 0.7


@dataclass(frozen=True)
class Learned:
    """A speed, and how much was seen of it.

    Attributes:
        cores: The number of cores it is about.
        steps_per_second: Weighted mean of all runs.
        weight: Sum of the runs' weights, at least 1.
    """

    cores: int
    steps_per_second: float
    weight: float


@dataclass(frozen=True)
class RunTime:
    """How long a command runs, and how much was seen of it.

    Attributes:
        seconds: Weighted mean of all runs.
        weight: Sum of the runs' weights, at least 1.
    """

    seconds: float
    weight: float


@dataclass(frozen=True)
class Lessons:
    """What earlier jobs have taught.

    Attributes:
        rates: Speeds of those of the same name, fewest cores first.
        expected_seconds: How long the same command ran; None if it never came to its end.
    """

    rates: tuple[Rate, ...] = ()
    expected_seconds: float | None = None


def command_key(uid: int, name: str, command: Sequence[str]) -> str:
    """Return what run times are learned by: whose job, its name, and every argument.

    Jobs of one name and other arguments, of more epochs say, run for other times.
    """
    return hashlib.blake2b(json.dumps([uid, name, *command]).encode(), digest_size=16).hexdigest()


def blend_run_time(known: RunTime | None, seconds: float) -> RunTime:
    """Return what is known after one more run of so many seconds; as for speeds, see blend."""
    if known is None:
        return RunTime(seconds, 1.0)
    return RunTime(*_mean(known.seconds, known.weight, seconds))


def blend(known: Iterable[Learned], rates: Iterable[Rate]) -> tuple[Learned, ...]:
    """Return what is known after one more run, fewest cores first.

    An exponentially weighted mean for each number of cores: a run counts 0.7 times
    as much as the next one with that number. So the newest of many runs counts
    30 %, the ten newest together 97 %, and the first runs are a nearly plain mean
    instead of being dominated by the very first (Brown, "Smoothing, Forecasting
    and Prediction", 1963, with the weights normalised).

    Args:
        known: From before, each number of cores at most once.
        rates: Measured in the run. Those that are not positive finite numbers
            say nothing and are left out.
    """
    speeds = {speed.cores: speed for speed in known}
    for rate in rates:
        speed = rate.steps_per_second
        if not (math.isfinite(speed) and speed > 0):
            continue
        old = speeds.get(rate.cores)
        weight = 1.0
        if old is not None:
            speed, weight = _mean(old.steps_per_second, old.weight, speed)
        speeds[rate.cores] = Learned(rate.cores, speed, weight)
    return tuple(speeds[cores] for cores in sorted(speeds))


def _mean(old: float, weight: float, new: float) -> tuple[float, float]:
    """Return a mean and its weight after one more value."""
    faded = weight * _FADING
    # As a step from the old mean, so that it stays between the two.
    return old + (new - old) / (faded + 1), faded + 1


class Knowledge:
    """What was learned from the jobs so far.

    Args:
        speeds: By name.
        run_times: By :func:`command_key`.
    """

    def __init__(
        self,
        speeds: Lru[tuple[Learned, ...]] | None = None,
        run_times: Lru[RunTime] | None = None,
    ) -> None:
        self.speeds: Lru[tuple[Learned, ...]] = Lru() if speeds is None else speeds
        self.run_times: Lru[RunTime] = Lru() if run_times is None else run_times

    def lessons(self, record: Record) -> Lessons:
        """Return what is known of a job before it has run."""
        return Lessons(self.rates(record.name), self.run_seconds(_key(record)))

    def rates(self, name: str) -> tuple[Rate, ...]:
        """Return the speeds that earlier jobs of this name reached, fewest cores first."""
        return tuple(Rate(s.cores, s.steps_per_second) for s in self.speeds.get(name) or ())

    def run_seconds(self, command: str) -> float | None:
        """Return how long a command, given by its key, ran; None if it never finished."""
        known = self.run_times.get(command)
        return None if known is None else known.seconds

    def learn(self, record: Record, rates: Iterable[Rate], *, finished: bool) -> None:
        """Learn from a job that has ended.

        Args:
            record: The job, up to its end.
            rates: The speeds that it reached.
            finished: It ended by itself, with exit code 0. The run times of failed and
                cancelled jobs are ignored.
        """
        self.learn_rates(record.name, rates)
        if finished:
            self.learn_run_seconds(_key(record), record.run_seconds)

    def learn_rates(self, name: str, rates: Iterable[Rate]) -> None:
        """Learn the speeds of one more job of a name; see :func:`blend`."""
        blended = blend(self.speeds.get(name) or (), rates)
        if blended:
            self.speeds.set(name, blended)

    def learn_run_seconds(self, command: str, seconds: float) -> None:
        """Learn the run time of one more run of a command, given by its key."""
        self.run_times.set(command, blend_run_time(self.run_times.get(command), seconds))


def is_same_command(one: Record, other: Record) -> bool:
    """Return whether two jobs learn the same run time; as their keys, without making these."""
    return (one.name, one.uid, one.command) == (other.name, other.uid, other.command)


def _key(record: Record) -> str:
    return command_key(record.uid, record.name, record.command)
