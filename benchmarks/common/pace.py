# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Scales trainings to this machine's speed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.common.children import clean_environment
from benchmarks.common.command_line import BenchmarkError, Say
from benchmarks.common.trainings import Training
from examples import speed

_SECONDS: Final = 4.0
# The reader differs from a program that is measured by its input only. Other frameworks are not
# installed everywhere; a slow machine is taken to slow them as it slows these.
_LIKE: Final = {
    "reader": "dense",
    "torch_cnn": "cnn",
    "lightgbm_trees": "dense",
    "sklearn_kmeans": "dense",
}


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
    environment = clean_environment({})
    try:
        speed.import_once(environment)
        factors = {
            program: speed.measure(program, _SECONDS, environment) for program in speed.STEP_SECONDS
        }
    except speed.TrainingError as error:
        raise BenchmarkError(str(error)) from None
    said = ", ".join(f"{program} {factor:g}" for program, factor in factors.items())
    say(f"Speed of this machine, to which steps are scaled: {said}")
    return Pace(factors)
