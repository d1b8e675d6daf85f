# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How fast this machine trains, so that a workload takes about as long on any machine.

Otherwise waiting, arrivals and TensorFlow's start would weigh more on a fast machine than on
a slow one.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.common.children import REPOSITORY, clean_environment
from benchmarks.common.command_line import BenchmarkError, Say
from benchmarks.common.trainings import SIZES, STEP_SECONDS, Training

# The difference of both is the time of their steps alone.
_SHORT_STEPS: Final = 20
_LONG_SECONDS: Final = 4.0
# These differ from a program that is measured by their input only.
_LIKE: Final = {"reader": "dense"}


@dataclass(frozen=True)
class Pace:
    """Speed of this machine relative to the one for which steps are counted.

    Attributes:
        factors: Speed on one core, by program.
    """

    factors: Mapping[str, float]

    def of(self, trainings: Sequence[Training]) -> tuple[Training, ...]:
        """Return the trainings with as many steps as take as long here."""
        return tuple(
            replace(training, steps=max(1, round(training.steps * self._factor(training.program))))
            for training in trainings
        )

    def _factor(self, program: str) -> float:
        return self.factors[_LIKE.get(program, program)]


def measure(say: Say) -> Pace:
    """Return the pace of this machine, by training each program on one core.

    Raises:
        BenchmarkError: A training failed.
    """
    factors = {}
    for program, usual in STEP_SECONDS.items():
        steps = round(_LONG_SECONDS / usual)
        taken = _seconds(program, _SHORT_STEPS + steps) - _seconds(program, _SHORT_STEPS)
        # Two digits: it is not more certain than that.
        factors[program] = float(f"{usual * steps / max(taken, usual):.2g}")
    said = ", ".join(f"{program} {factor:g}" for program, factor in factors.items())
    say(f"Speed of this machine, to which steps are scaled: {said}")
    return Pace(factors)


def _seconds(program: str, steps: int) -> float:
    cpu = min(os.sched_getaffinity(0))
    command = ("taskset", "--cpu-list", str(cpu), *Training(program, steps, SIZES[program]).command)
    start = time.monotonic()
    done = subprocess.run(
        command, cwd=REPOSITORY, env=clean_environment({}), capture_output=True, text=True
    )
    if done.returncode != 0:
        last = done.stderr.strip().splitlines()[-1:] or [f"exit code {done.returncode}"]
        raise BenchmarkError(f"the training {program} failed: {last[0]}")
    return time.monotonic() - start
