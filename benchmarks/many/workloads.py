# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which trainings arrive when. Data only; the same in every run.

Sizes are chosen so that each workload keeps two cores of about 2025 busy for 40 to 70
seconds, and the one with trainings of all sizes for 100.
"""

from __future__ import annotations

import importlib.util
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Final

from benchmarks.common.trainings import Training, lasting

_SEED: Final = 12
# On one core: TensorFlow's start, and the smallest training of 1 to 10.
_START_SECONDS: Final = 3.6
_SMALLEST_SECONDS: Final = 4.5
# Jobs that arrive at once still come in this order to every configuration.
_AT_ONCE_SECONDS: Final = 0.3


@dataclass(frozen=True)
class Workload:
    """Jobs in order of arrival.

    Attributes:
        letter: Name of the workload.
        title: Title that says what is special about it.
        trainings: Trainings, in order of arrival.
        policies: Policies to be measured with it besides the default one.
        modules: What its trainings import besides TensorFlow and its own requirements.
        again: Whether it is measured, too, with a controller that has run it once before.
    """

    letter: str
    title: str
    trainings: tuple[Training, ...]
    policies: tuple[str, ...] = ()
    modules: tuple[str, ...] = ()
    again: bool = False

    @property
    def missing(self) -> list[str]:
        """Modules that are not installed here."""
        return [name for name in self.modules if importlib.util.find_spec(name) is None]


def _at_random() -> tuple[Training, ...]:
    """Return 12 trainings of sizes 1 to 10, both ends included, arriving as a Poisson process.

    The size is what a user waits for, TensorFlow's start included.
    """
    return tuple(
        lasting(number, _SMALLEST_SECONDS * factor - _START_SECONDS, arrival)
        for number, (factor, arrival) in enumerate(_sizes_and_arrivals(12))
    )


def _sizes_and_arrivals(jobs: int) -> list[tuple[float, float]]:
    """Return sizes from 1 to 10, both included, log-uniform, with arrivals of a Poisson process."""
    numbers = random.Random(_SEED)
    sizes = [1.0, 10.0, *(math.exp(numbers.uniform(0, math.log(10))) for _ in range(jobs - 2))]
    numbers.shuffle(sizes)
    gaps = (numbers.expovariate(1 / 2.0) for _ in range(jobs - 1))
    return list(zip(sizes, accumulate(gaps, initial=0.0), strict=True))


def _of_many_sizes(trainings: Sequence[Training]) -> tuple[Training, ...]:
    """Return the trainings with a quarter of their steps to 2.5 times as many, one by one."""
    return tuple(
        replace(training, steps=round(training.steps * size / 4), arrival=round(arrival, 2))
        for training, (size, arrival) in zip(
            trainings, _sizes_and_arrivals(len(trainings)), strict=True
        )
    )


def _at_once(*trainings: Training) -> tuple[Training, ...]:
    return tuple(
        replace(training, arrival=n * _AT_ONCE_SECONDS) for n, training in enumerate(trainings)
    )


_MIXED = _at_once(
    Training("cnn", 1600, 64),
    Training("dense", 900, 1536),
    Training("rnn", 1100, 32),
    Training("cnn", 480, 128),
    Training("dense", 1900, 1024),
)
_RAGGED = _at_once(Training("cnn", 1800, 128), *(Training("dense", 480, 1024) for _ in range(4)))
# The first is alone for a while: long enough to see that both cores make it no faster.
_NOT_SCALING = (
    Training("rnn", 2300, 32),
    Training("cnn", 700, 128, arrival=8.0),
    Training("dense", 1300, 1536, arrival=9.0),
    Training("rnn", 3100, 32, arrival=10.0),
)
_FETCHING = _at_once(
    Training("reader", 1260, 1024, more=("--shards", "3", "--seconds", "6")),
    Training("reader", 1260, 1024, more=("--shards", "2", "--seconds", "8")),
    Training("reader", 1260, 1024, more=("--shards", "4", "--seconds", "4")),
    Training("reader", 1260, 1024, more=("--shards", "3", "--seconds", "5")),
)
_FRAMEWORKS: Final = _at_once(
    Training("cnn", 1600, 64),
    Training("torch_cnn", 450, 64),
    Training("lightgbm_trees", 1300, 40_000),
    Training("sklearn_kmeans", 300, 8192),
    Training("rnn", 1400, 32),
)
_FRAMEWORK_MODULES: Final = ("torch", "lightgbm", "sklearn")

WORKLOADS: Final = {
    workload.letter: workload
    for workload in (
        Workload("a", "5 mixed jobs at once", _MIXED, ("lend+efficient",)),
        Workload("b", "12 jobs at random, sizes 1:10", _at_random(), ("lend+efficient",)),
        Workload("c", "ragged tail: one long, four short", _RAGGED, ("lend+efficient",)),
        Workload("d", "jobs that do not scale", _NOT_SCALING, ("equal", "efficient")),
        Workload("e", "4 jobs that wait for input", _FETCHING, ("srpt",)),
        Workload(
            "f",
            "5 jobs of four frameworks at once",
            _FRAMEWORKS,
            modules=_FRAMEWORK_MODULES,
            again=True,
        ),
        Workload(
            "g",
            "5 jobs of four frameworks at random, sizes 1:10",
            _of_many_sizes(_FRAMEWORKS),
            modules=_FRAMEWORK_MODULES,
            again=True,
        ),
    )
}
