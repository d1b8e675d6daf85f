# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which trainings arrive when. Data only; the same in every run.

Sizes are chosen so that each workload keeps two cores of about 2025 busy for 40 to 70
seconds, and the one with jobs of all sizes for 100.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

_PROGRAMS: Final = Path(__file__).parent / "jobs"
_SEED: Final = 12
# On one core: TensorFlow's start, and the smallest job of 1 to 10.
_START_SECONDS: Final = 3.6
_SMALLEST_SECONDS: Final = 4.5
# Jobs that arrive at once still come in this order to every configuration.
_AT_ONCE_SECONDS: Final = 0.3


@dataclass(frozen=True)
class Job:
    """One training.

    Attributes:
        program: Its script in jobs/, without the suffix.
        steps: How many it is to do, and must have done at its end.
        size: Of its network; the script says what that means.
        arrival: Seconds after the first.
        more: Further arguments of the script.
        joins: It joins the controller by itself.
    """

    program: str
    steps: int
    size: int
    arrival: float = 0.0
    more: tuple[str, ...] = ()
    joins: bool = False

    @property
    def name(self) -> str:
        """What it is called; jobs of one name are as fast as each other."""
        return f"{self.program}-{self.size}"

    @property
    def arguments(self) -> tuple[str, ...]:
        """What Python is to run."""
        script = str(_PROGRAMS / f"{self.program}.py")
        return (script, "--steps", str(self.steps), "--size", str(self.size), *self.more)


@dataclass(frozen=True)
class Workload:
    """Jobs in order of arrival.

    Attributes:
        letter: What it is called.
        title: What is special about it.
        jobs: Its jobs.
        policies: To be measured with it besides the default one.
    """

    letter: str
    title: str
    jobs: tuple[Job, ...]
    policies: tuple[str, ...] = ()


def _at_random() -> tuple[Job, ...]:
    """Return 12 jobs of sizes 1 to 10, both ends included, arriving as a Poisson process.

    The size is what a user waits for, TensorFlow's start included.
    """
    # Seconds of one step on one core.
    step = {"cnn": 0.0094, "dense": 0.0082, "rnn": 0.0068}
    sizes = {"cnn": 64, "dense": 1024, "rnn": 32}
    numbers = random.Random(_SEED)
    factors = [1.0, 10.0, *(math.exp(numbers.uniform(0, math.log(10))) for _ in range(10))]
    numbers.shuffle(factors)
    jobs, arrival = [], 0.0
    for number, factor in enumerate(factors):
        program = tuple(step)[number % len(step)]
        steps = round((_SMALLEST_SECONDS * factor - _START_SECONDS) / step[program])
        jobs.append(Job(program, steps, sizes[program], round(arrival, 2)))
        arrival += numbers.expovariate(1 / 2.0)
    return tuple(jobs)


def _at_once(*jobs: Job) -> tuple[Job, ...]:
    return tuple(replace(job, arrival=n * _AT_ONCE_SECONDS) for n, job in enumerate(jobs))


_MIXED = _at_once(
    Job("cnn", 1600, 64),
    Job("dense", 900, 1536),
    Job("rnn", 1100, 32),
    Job("cnn", 480, 128),
    Job("dense", 1900, 1024),
)
_RAGGED = _at_once(Job("cnn", 1800, 128), *(Job("dense", 480, 1024) for _ in range(4)))
# The first is alone for a while: long enough to see that both cores make it no faster.
_NOT_SCALING = (
    Job("rnn", 2300, 32),
    Job("cnn", 700, 128, arrival=8.0),
    Job("dense", 1300, 1536, arrival=9.0),
    Job("rnn", 3100, 32, arrival=10.0),
)
_FETCHING = _at_once(
    Job("reader", 1260, 1024, more=("--shards", "3", "--seconds", "6")),
    Job("reader", 1260, 1024, more=("--shards", "2", "--seconds", "8")),
    Job("reader", 1260, 1024, more=("--shards", "4", "--seconds", "4")),
    Job("reader", 1260, 1024, more=("--shards", "3", "--seconds", "5")),
)

WORKLOADS: Final = {
    workload.letter: workload
    for workload in (
        Workload("a", "5 mixed jobs at once", _MIXED),
        Workload("b", "12 jobs at random, sizes 1:10", _at_random(), ("srpt",)),
        Workload("c", "ragged tail: one long, four short", _RAGGED),
        Workload("d", "jobs that do not scale", _NOT_SCALING, ("equal", "efficient")),
        Workload("e", "4 jobs that wait for input", _FETCHING, ("efficient",)),
    )
}
