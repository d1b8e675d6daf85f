# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Sixteen containers of training that arrive at random: under the controller, and without.

Under the controller twice: with commands it has never seen, and again, on another day
say, with the state file of the first time. Most trainings of shared clusters come again
(Weng et al., "MLaaS in the Wild", NSDI 2022), and it learns how long they run.
"""

from __future__ import annotations

import itertools
import math
import random
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from benchmarks.common.command_line import Say
from benchmarks.common.configurations import (
    IN_SEQUENCE,
    STATIC,
    TOGETHER,
    Configuration,
    Slot,
    controlled,
)
from benchmarks.common.controller import controller
from benchmarks.common.estimates import estimate, once
from benchmarks.common.pace import Pace
from benchmarks.common.rows import Row, Target
from benchmarks.common.runs import METRICS, Outcome, Run, Table, run_trainings
from benchmarks.common.trainings import Training, lasting
from benchmarks.containers.place import Place
from tf_malleable.policies import registry

NAME: Final = "arrivals"
_COUNT: Final = 16
_SEED: Final = 5
# On one core: TensorFlow's start in a container, and what comes on top, 1 to 6 times.
_SMALLEST_SECONDS: Final = 2.0
_LARGEST: Final = 6.0
_BETWEEN_SECONDS: Final = 2.0
_MAX_PROP: Final = controlled("fcfs-max-prop")
_NEW: Final = controlled(registry.DEFAULT)
_AGAIN: Final = Configuration(f"{registry.DEFAULT}, again", policy=registry.DEFAULT)
_OTHERS: Final = (TOGETHER, STATIC, IN_SEQUENCE, _MAX_PROP)


def trainings() -> list[Training]:
    """Return the trainings, the same each time: exponential pauses, sizes evenly on a log scale."""
    numbers = random.Random(_SEED)
    found, arrival = [], 0.0
    for number in range(_COUNT):
        seconds = _SMALLEST_SECONDS * math.exp(numbers.uniform(0, math.log(_LARGEST)))
        found.append(lasting(number, seconds, arrival))
        arrival += numbers.expovariate(1 / _BETWEEN_SECONDS)
    return found


def order(number: int) -> tuple[Configuration, ...]:
    """Return the configurations of a round, from 0, in rotated order.

    What is run again comes directly after its first time, whose state file it uses.
    """
    turn = (*_OTHERS, _NEW)
    first = number % len(turn)
    found: list[Configuration] = []
    for configuration in turn[first:] + turn[:first]:
        found += (_NEW, _AGAIN) if configuration is _NEW else (configuration,)
    return tuple(found)


def measure(place: Place, rounds: int, pace: Pace, say: Say) -> list[Run]:
    """Run all trainings in every configuration, in rotated order, so many times."""
    runs, jobs = [], pace.of(trainings())
    with tempfile.TemporaryDirectory(prefix="tfm-") as folder:
        state = Path(folder, "0")
        for number in range(rounds):
            for configuration in order(number):
                if configuration is _NEW:
                    state = Path(folder, str(number))
                learns = configuration in (_NEW, _AGAIN)
                used = state if learns else None
                outcomes = run_containers(place, jobs, configuration, used)
                run = Run(number, NAME, configuration.name, outcomes)
                runs.append(run)
                run.tell(say)
    return runs


def run_containers(
    place: Place, jobs: Sequence[Training], configuration: Configuration, state: Path | None
) -> tuple[Outcome, ...]:
    """Run trainings in containers, none of which is left.

    Args:
        place: Has the image.
        jobs: The trainings.
        configuration: How.
        state: State file of the controller, if there is one; None for a new one.
    """

    def command(training: Training, slot: Slot, unused: Configuration) -> list[str]:
        if configuration.policy is not None:
            options = ("--name", place.name(), "--job", training.name, "--min", "1", "--max", "2")
            return [*place.controlled(*options), *training.command]
        # A slot's prefix is taskset's: in a container that is its cpuset.
        cpus = ("--cpuset-cpus", slot.prefix[-1]) if slot.prefix else ()
        return [*place.stock(*cpus, environment=slot.environment), *training.command]

    try:
        if configuration.policy is None:
            return run_trainings(jobs, configuration, None, command)
        with controller(configuration.policy, state) as started:
            return run_trainings(jobs, configuration, started.client, command)
    finally:
        place.remove_all()


def rows(runs: list[Run]) -> list[Row]:
    """Return the default policy's times over those of every other way, each with its target."""
    table = Table(tuple(runs))
    found = []
    for ours, metric, other in itertools.product((_NEW, _AGAIN), METRICS, _OTHERS):
        pairs = zip(*(table.values(NAME, each.name, metric) for each in (ours, other)), strict=True)
        ratios = [mine / theirs for mine, theirs in pairs]
        label = f"{metric}: {ours.name} / {other.name}"
        found.append(Row(NAME, label, "ratio", estimate([ratios]), Target(1.0)))
    failures = once(float(sum(run.failures for run in runs)))
    label = f"failures in {len(runs)} runs of {_COUNT} containers"
    return [*found, Row(NAME, label, "", failures, Target(0))]
