# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure the operator: growth, changes of CPUs, deaths of nodes, two jobs, kills at random.

On a fake cluster, whose nodes share this machine; trainings, operator and API server are processes.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.cluster.names import DEATHS, GROWTH, JOBS, MEASURES, VERTICAL
from benchmarks.common.command_line import CommandLine, finish, positive, sayer
from benchmarks.common.resuming import Samples, earlier

# Of a training that takes minutes, as a second worker's start always takes the same.
_EPOCHS: Final = 200
# Of the long one of two.
_JOBS_PART: Final = 0.6


def measured(name: str, epochs: int, changes: int, times: int, kills: int) -> Any:  # noqa: ANN401
    """Measure one thing once, in new processes; return plain data."""
    from benchmarks.cluster import deaths, growth, jobs, vertical
    from benchmarks.cluster import kills as at_random

    if name in GROWTH:
        return growth.measure(name, epochs)
    if name in JOBS:
        return jobs.measure(name, max(1, round(epochs * _JOBS_PART)))
    if name == VERTICAL:
        return vertical.measure(changes)
    if name in DEATHS:
        is_keras = name == "deaths-keras"
        return deaths.measure(1 if is_keras else times, keras=is_keras)
    return at_random.measure(kills)


def run(
    measures: Sequence[str], rounds: int, out: Path, resume: bool, sizes: dict[str, int]
) -> None:
    """Measure, write and print."""
    from benchmarks.cluster import picture
    from benchmarks.cluster.rows import rows
    from benchmarks.common import machine  # Heavy, and so only when nothing is refused.
    from benchmarks.common.results import Results

    samples: Samples = {}
    calls: list[Any] = []
    if resume:
        samples, calls = earlier(out / "results.json", machine.describe()["commit"])
    results = Results("cluster", out, rounds=rounds, calls=calls, **sizes)
    say = sayer()
    for number in range(rounds):
        for name in measures:
            say(f"round {number + 1} of {rounds}: {name}")
            samples.setdefault(name, []).append(measured(name, **sizes))
            results.write(rows(samples), samples=samples)
    picture.draw(samples, out / "growth.png")
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("cluster", str(__doc__), "out/cluster", MEASURES)
    line.add_argument("--rounds", type=positive, default=1, help="new processes of each kind")
    for name, default, what in (
        ("epochs", _EPOCHS, "of the training that grows"),
        ("changes", 60, "of CPUs"),
        ("times", 5, "that a node dies in each of three ways"),
        ("kills", 100, "at random"),
    ):
        line.add_argument(f"--{name}", type=positive, default=default, help=what)
    line.add_argument(
        "--resume", action="store_true", help="add to the samples that --out has of this commit"
    )
    said = line.parse(arguments)
    sizes = {name: vars(said)[name] for name in ("epochs", "changes", "times", "kills")}
    measures = said.only or tuple(MEASURES)
    return finish("cluster", lambda: run(measures, said.rounds, said.out, said.resume, sizes))


if __name__ == "__main__":
    sys.exit(main())
