# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Learning from earlier jobs: speeds by user and name, run times and memory by user and command.

A user's jobs thus cannot slow down or overtake another user's by using the same names. Pure.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tf_malleable.model import Rate
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.recently_set import RecentlySet

_FADING = 0.7


@dataclass(frozen=True)
class Learned:
    """A learned speed.

    Attributes:
        cores: Number of cores it was measured with.
        steps_per_second: Weighted mean of all runs.
        weight: Sum of the runs' weights, at least 1.
    """

    cores: int
    steps_per_second: float
    weight: float


@dataclass(frozen=True)
class RunTime:
    """Run time and memory of the runs of a command.

    Attributes:
        seconds: Weighted mean of the run times.
        weight: Sum of the runs' weights, at least 1.
        peak_mem: Expected maximum memory of the next run, in bytes; None if unknown.
    """

    seconds: float
    weight: float
    peak_mem: float | None = None


@dataclass(frozen=True)
class Startup:
    """Time that the jobs of a user and name take to start.

    Attributes:
        seconds: Weighted mean of the seconds with cores until the first step begins.
        weight: Sum of the jobs' weights, at least 1.
    """

    seconds: float
    weight: float


@dataclass(frozen=True)
class Lessons:
    """Lessons of earlier jobs about a job.

    Attributes:
        rates: Speeds of jobs of the same user and name, fewest cores first.
        expected_seconds: Run time of the same command, in seconds; None if it never finished.
        peak_mem: Maximum memory of the same command, in bytes; None if unknown.
        startup_seconds: Seconds with cores until the first step begins, of jobs of the same user
            and name; None if none has reported steps.
    """

    rates: tuple[Rate, ...] = ()
    expected_seconds: float | None = None
    peak_mem: float | None = None
    startup_seconds: float | None = None


def speed_key(uid: int, name: str) -> str:
    """Return the key of a job's speeds: its user and name.

    Speeds that earlier versions learned by name alone are no longer used.
    """
    return f"{uid}:{name}"


def command_key(uid: int, name: str, command: Sequence[str]) -> str:
    """Return the key of a command's run time: its user, job name and all arguments.

    Jobs of the same name with other arguments, such as more epochs, take other times.
    """
    return hashlib.blake2b(json.dumps([uid, name, *command]).encode(), digest_size=16).hexdigest()


def blend_run_time(known: RunTime | None, seconds: float, peak: float | None = None) -> RunTime:
    """Return the run time after one more run of `seconds`, weighted as in :func:`blend`.

    Args:
        known: Run time of earlier runs.
        seconds: Run time of this run, in seconds.
        peak: Maximum memory used, in bytes; None if unknown.
    """
    if known is None:
        return RunTime(seconds, 1.0, peak)
    mean, weight = _mean(known.seconds, known.weight, seconds)
    return RunTime(mean, weight, blend_peak(known.peak_mem, peak))


def blend_peak(known: float | None, peak: float | None) -> float | None:
    """Return the memory to expect after one more run that used `peak` bytes at most.

    The estimate follows a larger peak at once and a smaller one slowly: too high an estimate
    delays a job, too low an estimate can end all jobs.
    """
    if known is None or peak is None or peak >= known:
        return known if peak is None else peak
    return _FADING * known + (1 - _FADING) * peak


def blend(known: Iterable[Learned], rates: Iterable[Rate]) -> tuple[Learned, ...]:
    """Return the speeds after one more run, fewest cores first.

    An exponentially weighted mean for each number of cores: a run counts 0.7 times
    as much as the next one with that number. So the newest of many runs counts
    30 %, the ten newest together 97 %, and the first few runs give nearly the plain
    mean instead of being dominated by the very first (Brown, "Smoothing, Forecasting
    and Prediction", 1963, with the weights normalised).

    Args:
        known: Speeds so far, each number of cores at most once.
        rates: Speeds measured in the run. Values that are not positive and finite are
            ignored.
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
    # Computed as a step from the old mean, so that rounding keeps it between the two.
    return old + (new - old) / (faded + 1), faded + 1


class Knowledge:
    """Everything learned so far.

    Args:
        speeds: Learned speeds by :func:`speed_key`.
        run_times: Learned run times by :func:`command_key`.
        starts: Learned starts by :func:`speed_key`.
    """

    def __init__(
        self,
        speeds: RecentlySet[tuple[Learned, ...]] | None = None,
        run_times: RecentlySet[RunTime] | None = None,
        starts: RecentlySet[Startup] | None = None,
    ) -> None:
        self.speeds: RecentlySet[tuple[Learned, ...]] = RecentlySet() if speeds is None else speeds
        self.run_times: RecentlySet[RunTime] = RecentlySet() if run_times is None else run_times
        self.starts: RecentlySet[Startup] = RecentlySet() if starts is None else starts

    def lessons(self, record: Record) -> Lessons:
        """Return the lessons of earlier jobs about a job."""
        program = speed_key(record.uid, record.program)
        start, run_time = self.starts.get(program), self.run_times.get(_key(record))
        return Lessons(
            self.rates(program),
            None if run_time is None else run_time.seconds,
            None if run_time is None else run_time.peak_mem,
            None if start is None else start.seconds,
        )

    def rates(self, key: str) -> tuple[Rate, ...]:
        """Return the speeds of earlier jobs, by their key, fewest cores first."""
        return tuple(Rate(s.cores, s.steps_per_second) for s in self.speeds.get(key) or ())

    def learn(
        self,
        record: Record,
        rates: Iterable[Rate],
        peak: float | None = None,
        start: float | None = None,
        *,
        finished: bool,
    ) -> None:
        """Learn from a job that has ended.

        Args:
            record: The job's record at its end.
            rates: Speeds that the job reached.
            peak: Maximum memory that the job used, in bytes; None if unknown.
            start: Seconds with cores until its first step began; None if unknown.
            finished: Whether the job ended by itself, with exit code 0. The run times of failed
                and cancelled jobs are ignored, and so is their memory, unless it was more
                than expected.
        """
        program = speed_key(record.uid, record.program)
        self.learn_rates(program, rates)
        if start is not None:
            self.learn_start(program, start)
        key = _key(record)
        if finished:
            self.learn_run_seconds(key, record.run_seconds, peak)
            return
        known = self.run_times.get(key)
        if known is not None and peak is not None and peak > (known.peak_mem or 0.0):
            self.run_times.set(key, replace(known, peak_mem=peak))

    def learn_rates(self, key: str, rates: Iterable[Rate]) -> None:
        """Learn the speeds of one more job, by its key; see :func:`blend`."""
        blended = blend(self.speeds.get(key) or (), rates)
        if blended:
            self.speeds.set(key, blended)

    def learn_start(self, key: str, seconds: float) -> None:
        """Learn the seconds until the first step of one more job, by its key; see :func:`blend`."""
        weight, known = 1.0, self.starts.get(key)
        if known is not None:
            seconds, weight = _mean(known.seconds, known.weight, seconds)
        self.starts.set(key, Startup(seconds, weight))

    def learn_run_seconds(self, command: str, seconds: float, peak: float | None = None) -> None:
        """Learn the run time, and memory if known, of one more run of a command, by its key."""
        self.run_times.set(command, blend_run_time(self.run_times.get(command), seconds, peak))


def passed_on(known: Lessons, ended: Record, record: Record, lessons: Lessons) -> Lessons:
    """Return the lessons of a live job once another one has ended.

    Args:
        known: Knowledge about jobs like the one that ended.
        ended: Record of that job.
        record: Record of the live job.
        lessons: Previous lessons of the live job.
    """
    if is_same_command(record, ended):
        return known
    if is_same_program(record, ended):
        return replace(lessons, rates=known.rates, startup_seconds=known.startup_seconds)
    return lessons


def is_same_program(one: Record, other: Record) -> bool:
    """Return whether two jobs have the same speed_key(), without computing it."""
    return (one.program, one.uid) == (other.program, other.uid)


def is_same_command(one: Record, other: Record) -> bool:
    """Return whether two jobs have the same command_key(), without computing it."""
    return (one.program, one.uid, one.command) == (other.program, other.uid, other.command)


def _key(record: Record) -> str:
    return command_key(record.uid, record.program, record.command)
