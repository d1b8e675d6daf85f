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
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pairs
from controller import host
from controller.configurations import (
    IN_SEQUENCE,
    STATIC,
    TOGETHER,
    Configuration,
    Slot,
    controlled,
)
from controller.results import METRICS, Run, Table
from controller.runner import Runner
from controller.workloads import Job

from container.place import Place
from container.verdicts import Verdict
from tf_malleable.policies import registry

NAME: Final = "arrivals"
_COUNT: Final = 16
_SEED: Final = 5
# On one core: TensorFlow's start in a container, and what comes on top, 1 to 6 times.
_SMALLEST_SECONDS: Final = 2.0
_LARGEST: Final = 6.0
_BETWEEN_SECONDS: Final = 2.0
_STEP_SECONDS: Final = {"cnn": 0.0094, "dense": 0.0082, "rnn": 0.0068}
_SIZES: Final = {"cnn": 64, "dense": 1024, "rnn": 32}
_MAX_PROP: Final = controlled("fcfs-max-prop")
_NEW: Final = controlled(registry.DEFAULT)
_AGAIN: Final = Configuration(f"{registry.DEFAULT}, again", policy=registry.DEFAULT)
_OTHERS: Final = (TOGETHER, STATIC, IN_SEQUENCE, _MAX_PROP)
_CONFIGURATIONS: Final = (*_OTHERS, _NEW, _AGAIN)


def jobs() -> list[Job]:
    """Return the jobs, the same each time: exponential pauses, sizes evenly on a log scale."""
    numbers = random.Random(_SEED)
    found, arrival = [], 0.0
    for number in range(_COUNT):
        program = tuple(_STEP_SECONDS)[number % len(_STEP_SECONDS)]
        seconds = _SMALLEST_SECONDS * math.exp(numbers.uniform(0, math.log(_LARGEST)))
        steps = round(seconds / _STEP_SECONDS[program])
        found.append(Job(program, steps, _SIZES[program], round(arrival, 2)))
        arrival += numbers.expovariate(1 / _BETWEEN_SECONDS)
    return found


def measure(place: Place, rounds: int, say: Callable[[str], None]) -> list[Run]:
    """Run all jobs in every configuration, in rotated order, so many times."""
    runs = []
    with tempfile.TemporaryDirectory(prefix="tfm-") as folder:
        state = Path(folder, "0")
        for number in range(rounds):
            first = number % len(_CONFIGURATIONS)
            for configuration in _CONFIGURATIONS[first:] + _CONFIGURATIONS[:first]:
                if configuration is _NEW:
                    state = Path(folder, str(number))
                learns = configuration in (_NEW, _AGAIN)
                run = _run(place, number, configuration, state if learns else None)
                runs.append(run)
                _tell(run, say)
    return runs


def _tell(run: Run, say: Callable[[str], None]) -> None:
    say(
        f"{run.configuration:21} makespan {run.makespan:6.1f} s, mean turnaround"
        f" {run.mean_turnaround:6.1f} s, failures {run.failures}"
    )
    for outcome in run.outcomes:
        if outcome.failed:
            say(f"   {outcome.name}: {outcome.exit_code}: {outcome.last_words}")


def _run(place: Place, number: int, configuration: Configuration, state: Path | None) -> Run:
    def command(job: Job, slot: Slot, unused: Configuration) -> list[str]:
        program = [sys.executable, *job.arguments]
        if configuration.policy is not None:
            options = ("--name", place.name(), "--job", job.name, "--min", "1", "--max", "2")
            return [*place.controlled(*options), *program]
        # A slot's prefix is taskset's: in a container that is its cpuset.
        cpus = ("--cpuset-cpus", slot.prefix[-1]) if slot.prefix else ()
        return [*place.stock(*cpus, environment=slot.environment), *program]

    with tempfile.TemporaryDirectory(prefix="tfm-") as folder:
        try:
            if configuration.policy is None:
                outcomes = Runner(configuration, Path(folder), command=command).run(jobs())
            else:
                with host.controller(configuration.policy, state) as started:
                    runner = Runner(configuration, Path(folder), started.socket, command=command)
                    outcomes = runner.run(jobs())
        finally:
            place.remove_all()
    return Run(number, NAME, configuration.name, tuple(outcomes))


def verdicts(runs: list[Run]) -> list[Verdict]:
    """Return how the default policy is against every other way."""
    table = Table(tuple(runs))
    found = []
    for ours, metric, other in itertools.product((_NEW, _AGAIN), METRICS, _OTHERS):
        pair = zip(table.of(NAME, ours.name), table.of(NAME, other.name), strict=True)
        ratios = [mine.value(metric) / theirs.value(metric) for mine, theirs in pair]
        text = f"{metric}: {ours.name} / {other.name}"
        bar = pairs.Bar(1.0, at_least=False)
        found.append(Verdict(NAME, text, pairs.estimate([ratios]), "ratio", bar))
    failures = [[float(sum(run.failures for run in runs))]]
    text = f"failures in {len(runs)} runs of {_COUNT} containers"
    bar = pairs.Bar(0, at_least=False)
    return [*found, Verdict(NAME, text, pairs.estimate(failures), "", bar)]
