# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure many trainings on one machine: under the controller, and without it."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import machine
from command_line import Parser, Say, context, finish, positive, sayer
from controller import bars, figure, host, latency, load
from controller.configurations import BASELINES, Configuration, controlled
from controller.results import Run, Table, as_text, verdicts
from controller.runner import Runner
from controller.workloads import WORKLOADS, Workload

from tf_malleable.policies import registry

_MEASURES = (*WORKLOADS, load.NAME, latency.NAME)


def _policy(text: str) -> str:
    try:
        registry.create(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def _parse() -> argparse.Namespace:
    parser = Parser(__doc__, out="out/many")
    parser.add_argument(
        "--only",
        nargs="+",
        choices=_MEASURES,
        default=_MEASURES,
        metavar="MEASURE",
        help="; ".join(f"{w.letter}: {w.title}" for w in WORKLOADS.values())
        + f"; {load.NAME}: 128 jobs; {latency.NAME}: of grants",
    )
    parser.add_argument(
        "--policies",
        nargs="*",
        type=_policy,
        metavar="POLICY",
        help="in place of those chosen for each workload; none: only the baselines",
    )
    parser.add_argument("--no-baselines", action="store_true", help="only the controller")
    parser.add_argument("--rounds", type=positive, default=3, help="runs of each configuration")
    return parser.parse()


def _configurations(workload: Workload, arguments: argparse.Namespace) -> list[Configuration]:
    policies: Sequence[str] = (registry.DEFAULT, *workload.policies)
    if arguments.policies is not None:
        policies = arguments.policies
    stock = () if arguments.no_baselines else BASELINES
    return [*stock, *map(controlled, dict.fromkeys(policies))]


def _run_once(number: int, workload: Workload, configuration: Configuration, say: Say) -> Run:
    with tempfile.TemporaryDirectory(prefix="tfm-") as folder:
        if configuration.policy is None:
            outcomes = Runner(configuration, Path(folder)).run(workload.jobs)
        else:
            with host.controller(configuration.policy) as started:
                runner = Runner(configuration, Path(folder), started.socket)
                outcomes = runner.run(workload.jobs)
    run = Run(number, workload.letter, configuration.name, tuple(outcomes))
    say(
        f"  {workload.letter}  {configuration.name:20} makespan {run.makespan:6.1f} s,"
        f" mean turnaround {run.mean_turnaround:6.1f} s, failures {run.failures}"
    )
    for outcome in outcomes:
        if outcome.failed:
            say(f"     {outcome.name}: exit code {outcome.exit_code}: {outcome.last_words}")
    return run


def _rounds(arguments: argparse.Namespace, say: Say) -> Iterator[list[Run]]:
    """Yield the runs of each round: every workload in every configuration, in rotated order.

    Without any workload that is one round of nothing.
    """
    chosen = [workload for letter, workload in WORKLOADS.items() if letter in arguments.only]
    if not chosen:
        yield []
        return
    for number in range(arguments.rounds):
        say(f"Round {number + 1} of {arguments.rounds}")
        runs = []
        for workload in chosen:
            configurations = _configurations(workload, arguments)
            first = number % len(configurations) if configurations else 0
            for configuration in configurations[first:] + configurations[:first]:
                runs.append(_run_once(number, workload, configuration, say))
        yield runs


def _run(arguments: argparse.Namespace) -> None:
    results = {**context(), "default_policy": registry.DEFAULT}
    before, say = machine.CpuTimes.now(), sayer()
    once: list[bars.Verdict] = []
    if load.NAME in arguments.only:
        loaded = load.measure(say)
        once += loaded.verdicts()
        results[load.NAME] = loaded.as_json()
    if latency.NAME in arguments.only:
        latencies = latency.measure(say)
        once += [each.verdict() for each in latencies]
        results[latency.NAME] = [each.as_json() for each in latencies]
    runs: list[Run] = []
    path = arguments.out / "results.json"
    # Written after each round, so that whoever has no more time has those before.
    for more in _rounds(arguments, say):
        runs += more
        table = Table(tuple(runs))
        found = verdicts(table, registry.DEFAULT) + once if runs else once
        noise = machine.noise(before, machine.CpuTimes.now())
        results |= {
            "runs": [run.as_json() for run in runs],
            "bars": [verdict.as_json() for verdict in found],
            "noise": noise,
        }
        path.write_text(json.dumps(results, indent=1) + "\n")
        if runs:
            figure.draw(table, arguments.out / "results.png")
    if runs:
        print(f"\n{as_text(table)}")
    print(f"\n{bars.as_text(found)}")
    print(
        f"\nCPU time taken by other processes {noise['others']:.1%}, by the host"
        f" {noise['stolen']:.1%}. Results: {path}"
    )


def main() -> int:
    """Run the benchmark."""
    arguments = _parse()
    return finish("many", lambda: _run(arguments), (host.HostError, latency.LatencyError))


if __name__ == "__main__":
    sys.exit(main())
