# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure tf_malleable against stock TensorFlow, in pairs, and hold it to its bars."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict, replace
from pathlib import Path

import figure
import machine
import report
from command_line import Parser, context, finish, positive, sayer
from measure import measure
from names import FULL, MEASURES, QUICK, WORKLOADS, Effort, Selection, select
from processes import WorkerError


def _parse() -> argparse.Namespace:
    parser = Parser(__doc__, out="out/bench")
    parser.add_argument("--quick", action="store_true", help="minutes instead of half an hour")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"of the measures {', '.join(MEASURES)}; of the workloads {', '.join(WORKLOADS)}",
    )
    parser.add_argument("--generations", type=positive, help="how often to start all processes")
    parser.add_argument("--rounds", type=positive, help="rounds for each generation of processes")
    arguments = parser.parse()
    try:
        arguments.only = select(arguments.only)
    except ValueError as error:
        parser.error(f"--only: {error}")
    return arguments


def _run(selection: Selection, effort: Effort, out: Path) -> None:
    conditions = {**context(), "effort": asdict(effort)}
    before, start, say = machine.CpuTimes.now(), time.monotonic(), sayer()
    samples = measure(selection, effort, say)
    noise = machine.noise(before, machine.CpuTimes.now())
    conditions |= {"noise": noise, "seconds": time.monotonic() - start}
    found = report.rows(samples)
    results = report.as_json(found, samples, conditions)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    figure.draw(found, out / "results.png")
    print(f"\n{report.table(found)}")
    print(
        f"CPU time taken by other processes {noise['others']:.1%}, by the host"
        f" {noise['stolen']:.1%}. Results: {out / 'results.json'}, results.png"
    )


def main() -> int:
    """Run the benchmarks."""
    arguments = _parse()
    effort = QUICK if arguments.quick else FULL
    chosen = {"generations": arguments.generations, "rounds": arguments.rounds}
    effort = replace(effort, **{name: number for name, number in chosen.items() if number})
    return finish("run", lambda: _run(arguments.only, effort, arguments.out), (WorkerError,))


if __name__ == "__main__":
    sys.exit(main())
