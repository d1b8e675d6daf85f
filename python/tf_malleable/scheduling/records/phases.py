# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Phases of a job's time with cores: start, waits for input, and end. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from tf_malleable.scheduling.records.usage import SAMPLE_SECONDS

# CPUs. A job that uses less is waiting.
_IDLE = 0.2
# Samples earlier than this after a job got cores are not meaningful.
_LEAST_SECONDS = SAMPLE_SECONDS / 2


@dataclass(frozen=True)
class Course:
    """Phases of a job's time with cores; each value is None if unknown.

    Attributes:
        first_step_seconds: Seconds before the first step.
        first_idle_seconds: Part of these seconds with a usage below 0.2 CPUs.
        last_step_seconds: Seconds after the last step.
        idle_seconds: Seconds with a usage below 0.2 CPUs; only those between the first and
            the last reported step if any were reported.
        idle_phases: Number of uninterrupted phases of these seconds.
    """

    first_step_seconds: float | None = None
    first_idle_seconds: float | None = None
    last_step_seconds: float | None = None
    idle_seconds: float | None = None
    idle_phases: int | None = None


NOT_FOLLOWED: Final = Course()


@dataclass
class Phases:
    """Phases of a job so far.

    Times are the job's seconds with cores so far, so that pauses take no time. Reports come once
    a second: the times of the first and last step within that second follow from the speed.

    Attributes:
        whole: True if the job is followed from its first core on. If not, unknown values stay
            None.
    """

    whole: bool = True
    _steps: float | None = None
    _reported: float = 0.0
    _speed: float = 0.0
    _first: float | None = None
    _first_steps: float = 0.0
    _first_after: float = 0.0
    _first_idle: float | None = None
    _last: float | None = None
    _cpu_seconds: float | None = None
    _at: float = 0.0
    _is_idle: bool = False
    _idle: tuple[float, int] = (0.0, 0)
    _idle_at_last: tuple[float, int] = (0.0, 0)

    def report(self, steps: float, seconds: float) -> None:
        """Note the number of steps that the job has reported by `seconds`."""
        # If the job is not followed from its start, the first report may be an old one.
        before = 0.0 if self._steps is None and self.whole else self._steps
        since, self._reported = self._reported, seconds
        self._steps = steps
        if before is not None and steps < before:
            # Another process starts at zero, at a speed of its own.
            before = self._speed = self._first_steps = 0.0
        if before is None or steps in (0.0, before):
            return
        self._note_steps(steps - before, since, seconds)
        self._idle_at_last = self._idle

    def _note_steps(self, steps: float, since: float, until: float) -> None:
        """Note steps that were done between the previous report and `until`."""
        if self._last is None:
            self._first = until if self.whole else None
            self._first_steps, self._first_after = steps, since
            is_sampled = self.whole and self._cpu_seconds is not None
            self._first_idle = self._idle[0] if is_sampled else None
            # Idle time until then was a part of the start.
            self._idle, self._is_idle = (0.0, 0), False
        last = until
        if self._speed > 0:
            last = min(until, since + steps / self._speed)
        if self._last is not None and until > since:
            self._speed = steps / (until - since)
            self._correct_first()
        self._last = last

    def _correct_first(self) -> None:
        """Assume that the first steps were as fast as those after them."""
        if self._first is not None and self._first_steps and self._speed > 0:
            begun = self._first - self._first_steps / self._speed
            self._first = max(self._first_after, begun)
        self._first_steps = 0.0

    def sample(self, cpu_seconds: float, seconds: float) -> None:
        """Note the CPU time that the job has used by `seconds`."""
        if self._cpu_seconds is not None:
            length = seconds - self._at
            if length < _LEAST_SECONDS:
                return
            used = (cpu_seconds - self._cpu_seconds) / length
            # CPU time decreases when processes end whose time is not kept.
            if used >= 0:
                self._go_on(used < _IDLE, length)
        self._cpu_seconds, self._at = cpu_seconds, seconds

    def _go_on(self, is_idle: bool, length: float) -> None:
        if is_idle:
            seconds, phases = self._idle
            self._idle = seconds + length, phases + (not self._is_idle)
        self._is_idle = is_idle

    def course(self, seconds: float) -> Course:
        """Return the phases of the job if it has ended at `seconds`."""
        idle_seconds, idle_phases = self._idle if self._last is None else self._idle_at_last
        is_sampled = self.whole and self._cpu_seconds is not None
        return Course(
            first_step_seconds=self._first,
            first_idle_seconds=self._first_idle,
            last_step_seconds=None if self._last is None else max(0.0, seconds - self._last),
            idle_seconds=idle_seconds if is_sampled else None,
            idle_phases=idle_phases if is_sampled else None,
        )
