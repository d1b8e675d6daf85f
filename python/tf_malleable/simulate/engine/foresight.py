# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Clairvoyance: what a policy may know of simulated jobs that no policy knows of real ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from tf_malleable.model import Job, Rate
from tf_malleable.simulate.engine.task import Task

# Of a job that reports none.
_STEPS: Final = 100.0


@dataclass(frozen=True)
class Clairvoyance:
    """Knowledge of jobs from their arrival on, beside what a controller would know.

    Attributes:
        sizes: Whether a policy knows the work of each job, in seconds on one core.
        curves: Whether it knows the speed with each number of cores, apart from noise.
    """

    sizes: bool = False
    curves: bool = False

    def added(self, job: Job, task: Task, left: float) -> Job:
        """Return a job as a policy sees it that has foresight.

        Args:
            job: The job as a policy sees it without.
            task: Its task.
            left: Remaining work, in seconds on one core.
        """
        steps = task.steps or _STEPS
        if self.curves:
            job = replace(job, rates=_rates(task, steps))
        if self.sizes:
            rates = job.rates or (Rate(1, steps / task.seconds),)
            done = (task.work - left) / task.seconds * steps
            total = task.work / task.seconds * steps
            job = replace(job, rates=rates, steps_done=done, steps_total=total)
        return job


NONE: Final = Clairvoyance()


def _rates(task: Task, steps: float) -> tuple[Rate, ...]:
    most = task.shape.max
    counts = sorted({most, *(2**n for n in range(most.bit_length()) if 2**n <= most)})
    return tuple(Rate(n, steps / task.seconds * task.curve.speedup(n)) for n in counts)
