# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure tf_malleable against stock TensorFlow, in pairs, and hold it to its bars."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import time
from dataclasses import asdict, replace
from datetime import datetime, timezone
from pathlib import Path
from typing import NoReturn

import figure
import machine
import report
from measure import measure
from names import FULL, MEASURES, QUICK, WORKLOADS, Effort, Selection, select
from processes import WorkerError

_INTERRUPTED = 130


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _positive(text: str) -> int:
    number = int(text) if text.isascii() and text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be an integer from 1, not {text!r}")
    return number


def _parse() -> argparse.Namespace:
    parser = _Parser(description=__doc__)
    parser.add_argument(
        "--out", type=Path, default=Path("out/bench"), help="folder for results.json and .png"
    )
    parser.add_argument("--quick", action="store_true", help="minutes instead of half an hour")
    parser.add_argument(
        "--only",
        nargs="+",
        default=[],
        metavar="NAME",
        help=f"of the measures {', '.join(MEASURES)}; of the workloads {', '.join(WORKLOADS)}",
    )
    parser.add_argument("--generations", type=_positive, help="how often to start all processes")
    parser.add_argument("--rounds", type=_positive, help="rounds for each generation of processes")
    arguments = parser.parse_args()
    try:
        arguments.only = select(arguments.only)
    except ValueError as error:
        parser.error(f"--only: {error}")
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"--out: {error.strerror}: {arguments.out}")
    return arguments


def _run(selection: Selection, effort: Effort, out: Path) -> None:
    context = machine.describe()
    context["date"] = datetime.now(timezone.utc).isoformat(timespec="seconds")
    context["effort"] = asdict(effort)
    before, start = machine.CpuTimes.now(), time.monotonic()

    def say(text: str) -> None:
        print(f"{time.monotonic() - start:5.0f} s  {text}", flush=True)

    samples = measure(selection, effort, say)
    noise = machine.noise(before, machine.CpuTimes.now())
    context["noise"] = noise
    context["seconds"] = time.monotonic() - start
    found = report.rows(samples)
    results = report.as_json(found, samples, context)
    (out / "results.json").write_text(json.dumps(results, indent=1) + "\n")
    figure.draw(found, out / "results.png")
    print(f"\n{report.table(found)}")
    print(
        f"CPU time taken by other processes {noise['others']:.1%}, by the host"
        f" {noise['stolen']:.1%}. Results: {out / 'results.json'}, results.png"
    )


def _stop(signal_number: int, frame: object) -> NoReturn:
    raise KeyboardInterrupt


def main() -> int:
    """Run the benchmarks."""
    signal.signal(signal.SIGTERM, _stop)
    arguments = _parse()
    effort = QUICK if arguments.quick else FULL
    chosen = {"generations": arguments.generations, "rounds": arguments.rounds}
    effort = replace(effort, **{name: number for name, number in chosen.items() if number})
    try:
        _run(arguments.only, effort, arguments.out)
    except KeyboardInterrupt:
        print("benchmarks: interrupted", file=sys.stderr)
        return _INTERRUPTED
    except (WorkerError, OSError) as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
