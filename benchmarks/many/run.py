# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs the benchmark of many processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.common import pace
from benchmarks.common.command_line import Say, sayer
from benchmarks.common.configurations import BASELINES, Configuration, controlled
from benchmarks.common.controller import controller
from benchmarks.common.results import Results
from benchmarks.common.rows import Row
from benchmarks.common.runs import Run, Table, run_trainings
from benchmarks.many import latency, load, targets
from benchmarks.many.workloads import WORKLOADS, Workload
from tf_malleable.policies import registry


@dataclass(frozen=True)
class Choice:
    """What is measured.

    Attributes:
        names: Workloads by letter, and other measures.
        policies: In place of those chosen for each workload; None for those.
        baselines: The ways without a controller too.
        rounds: Runs of each configuration.
    """

    names: Sequence[str]
    policies: Sequence[str] | None
    baselines: bool
    rounds: int

    def configurations(self, workload: Workload) -> list[Configuration]:
        """Return the configurations that a workload is run in."""
        policies = self.policies
        if policies is None:
            policies = (registry.DEFAULT, *workload.policies)
        stock = BASELINES if self.baselines else ()
        known = [controlled(registry.DEFAULT, again=True)] if workload.again else []
        return [*stock, *map(controlled, dict.fromkeys(policies)), *known]


def run(choice: Choice, out: Path) -> None:
    """Measure, write after each part, and print."""
    say, titles = sayer(), {workload.letter: workload.title for workload in WORKLOADS.values()}
    results = Results("many", out, titles, default_policy=registry.DEFAULT)
    once: list[Row] = []
    if load.NAME in choice.names:
        loaded = load.measure(say)
        once += loaded.rows()
        results.write(once, load=loaded.as_json())
    if latency.NAME in choice.names:
        latencies = latency.measure(say)
        once += [each.row() for each in latencies]
        results.write(once, latency=[each.as_json() for each in latencies])
    runs: list[Run] = []
    chosen = [workload for letter, workload in WORKLOADS.items() if letter in choice.names]
    if chosen:
        speed = pace.measure(say)
        results.write(once, pace=speed.factors)
        chosen = [replace(each, trainings=speed.of(each.trainings)) for each in chosen]
    for more in _rounds(choice, chosen, say):
        runs += more
        results.write(targets.rows(Table(tuple(runs)), registry.DEFAULT) + once, runs)
    results.tell()


def _rounds(choice: Choice, chosen: Sequence[Workload], say: Say) -> Iterator[list[Run]]:
    """Yield the runs of each round: every workload in every configuration, in rotated order."""
    for number in range(choice.rounds if chosen else 0):
        say(f"Round {number + 1} of {choice.rounds}")
        runs = []
        for workload in chosen:
            configurations = choice.configurations(workload)
            first = number % len(configurations) if configurations else 0
            for configuration in configurations[first:] + configurations[:first]:
                runs.append(_run_once(number, workload, configuration))
                runs[-1].tell(say)
        yield runs


def _run_once(number: int, workload: Workload, configuration: Configuration) -> Run:
    if configuration.policy is None:
        outcomes = run_trainings(workload.trainings, configuration, None)
    else:
        with controller(configuration.policy) as started:
            if configuration.again:
                run_trainings(workload.trainings, configuration, started.client)
            outcomes = run_trainings(workload.trainings, configuration, started.client)
    return Run(number, workload.letter, configuration.name, outcomes)
