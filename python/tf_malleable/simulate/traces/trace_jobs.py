# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Collection of the jobs of a trace: rigid jobs, of which only cores and run time are known."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from sys import intern

from tf_malleable.model import Shape
from tf_malleable.simulate.engine.task import Task
from tf_malleable.simulate.engine.workload import Assumed, Workload
from tf_malleable.simulate.workloads.assumptions import about_curve, about_phases

UNKNOWN_USER = "unknown"


class Gathering:
    """Jobs and assumptions read from a trace so far."""

    def __init__(self, path: Path, assumed: Assumed) -> None:
        """Create a collection without jobs.

        Args:
            path: The trace.
            assumed: Assumptions about what the trace does not say of its jobs.
        """
        self._path = path
        self._assumed = assumed
        self._tasks: list[Task] = []
        self._left_out: Counter[str] = Counter()
        self._sizes: dict[int, tuple[Shape, float]] = {}
        # A dictionary serves as an ordered set.
        self._said: dict[str, None] = {}

    def assume(self, sentence: str) -> None:
        """Note an assumption, in addition to those of all traces."""
        self._said[sentence] = None

    def leave_out(self, reason: str) -> None:
        """Count a job that is not simulated, by the reason."""
        self._left_out[reason] += 1

    def speedup(self, cores: int) -> float:
        """Return the assumed speed of a job relative to one core."""
        return self._size(cores)[1]

    def _size(self, cores: int) -> tuple[Shape, float]:
        size = self._sizes.get(cores)
        if size is None:
            shape = Shape(1 if self._assumed.malleable else cores, cores, cores)
            size = self._sizes[cores] = (shape, self._assumed.curve.speedup(cores))
        return size

    def add(
        self,
        at: float,
        seconds: float,
        cores: int,
        *,
        name: str,
        user: str,
        failed: bool,
        expected: float | None = None,
    ) -> None:
        """Add a job, which takes the same time again if it keeps these cores.

        Args:
            at: Arrival in seconds, in the trace's own time.
            seconds: Run time, in seconds.
            cores: Number of cores for the whole run time.
            name: Name of the program, as far as the trace tells.
            user: Name of the owner.
            failed: Whether the job failed or was cancelled.
            expected: Run time that the user expects, in seconds; None if unknown.

        Raises:
            ValueError: A value is invalid.
        """
        assumed = self._assumed
        shape, speedup = self._size(cores)
        starting = assumed.starting if assumed.starting < seconds else 0.0
        if failed:
            self.assume("a job that failed or was cancelled ends after the work that it then had")
        task = Task(
            intern(name),
            at,
            (seconds - starting) * speedup,
            assumed.curve,
            shape,
            user=intern(user),
            expected=expected,
            steps=assumed.steps,
            starting=starting,
            fails_at=1.0 if failed else None,
        )
        self._tasks.append(task)

    def workload(self) -> Workload:
        """Return the jobs in order of arrival; the first one arrives at 0.

        Raises:
            ValueError: There are no jobs.
        """
        tasks = self._tasks
        if not tasks:
            raise ValueError(self._nothing())
        tasks.sort(key=attrgetter("at"))
        first = tasks[0].at
        for index, task in enumerate(tasks if first else ()):
            tasks[index] = replace(task, at=task.at - first)
        return Workload(
            self._path.stem,
            tuple(tasks),
            dict(self._left_out),
            (*self._common(), *self._said),
        )

    def _nothing(self) -> str:
        if not self._left_out:
            return f"{self._path} has no jobs"
        why = ", ".join(f"{count} {reason}" for reason, count in self._left_out.items())
        return f"{self._path} has no jobs that can be simulated, only {why}"

    def _common(self) -> tuple[str, ...]:
        can = ("a job that had n cores can use 1 … n",) if self._assumed.malleable else ()
        start, *others = about_phases(self._assumed)
        if self._assumed.starting:
            start += " of the run time, unless that is shorter"
        return (about_curve(self._assumed), *can, start, *others)
