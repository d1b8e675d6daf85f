# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings that workloads are made of: the scripts of examples/trainings."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from examples.speed import STEP_SECONDS, TRAININGS

if TYPE_CHECKING:
    from tf_malleable.workload.plan import PlannedJob

# Those of STEP_SECONDS.
SIZES: Final = {"cnn": 64, "dense": 1024, "rnn": 32}


@dataclass(frozen=True)
class Training:
    """One training.

    Attributes:
        program: File name of its script, without the suffix.
        steps: Number of steps it is to do, and must have done at its end.
        size: Size of its network, in the unit of the script's --size.
        arrival: Time of arrival, in seconds after the first training's.
        more: Further arguments of the script.
        joins: Whether it joins the controller by itself.
    """

    program: str
    steps: int
    size: int
    arrival: float = 0.0
    more: tuple[str, ...] = ()
    joins: bool = False

    @property
    def name(self) -> str:
        """Its name. The controller shares measured speeds between jobs of the same name."""
        return f"{self.program}-{self.size}"

    @property
    def command(self) -> tuple[str, ...]:
        """What is run."""
        script = str(TRAININGS / f"{self.program}.py")
        sizes = ("--steps", str(self.steps), "--size", str(self.size))
        return (sys.executable, script, *sizes, *self.more)

    @property
    def planned(self) -> PlannedJob:
        """It as a job of a workload."""
        # Here, so that a list of workloads can be printed without waiting for this.
        from tf_malleable.api.schema.job_request import JobRequest
        from tf_malleable.workload.plan import PlannedJob

        return PlannedJob(self.arrival, JobRequest(self.name, self.command))


def lasting(number: int, seconds: float, arrival: float) -> Training:
    """Return one of several trainings, of each program in turn.

    Args:
        number: Number of the training, from 0.
        seconds: Seconds it takes on one core, without TensorFlow's start.
        arrival: Time of arrival, in seconds after the first training's.
    """
    program = tuple(STEP_SECONDS)[number % len(STEP_SECONDS)]
    steps = round(seconds / STEP_SECONDS[program])
    return Training(program, steps, SIZES[program], round(arrival, 2))
