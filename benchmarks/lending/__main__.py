# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure an owner's naps beside a borrower, a job beside programs that are none, and alone."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common.command_line import CommandLine, finish, positive, sayer

MEASURES: Final = {
    "naps": "30 ms of CPU time after two idle seconds, beside a borrower with nine busy processes",
    "outside": "a job of one thread on its core, beside ten busy sessions that are no jobs",
    "throughput": "two trainings with the CPUs to themselves",
}
WAYS: Final = ("off", "auto")


def run(only: Sequence[str], rounds: int, count: int, seconds: int, out: Path) -> None:
    """Measure all that was selected, in turn with and without weights; write and print it."""
    from benchmarks.common.results import Results
    from benchmarks.lending.measures import CPUS, naps, outside, throughput
    from benchmarks.lending.rows import rows

    results = Results("lending", out, titles=MEASURES, cpus=CPUS, rounds=rounds)
    say, samples = sayer(), dict[str, Any]()
    for number in range(rounds):
        for measure in only or MEASURES:
            found = samples.setdefault(measure, {way: [] for way in WAYS})
            for way in WAYS if number % 2 else WAYS[::-1]:
                say(f"round {number + 1}: {measure}, --cpu-weights {way}")
                if measure == "naps":
                    found[way].append(naps(way, count))
                else:
                    take = outside if measure == "outside" else throughput
                    found[way].append(take(way, float(seconds)))
        results.write(rows(samples), samples=samples)
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("lending", str(__doc__), "out/lending", MEASURES)
    line.add_argument("--rounds", type=positive, default=5, help="pairs, with weights and without")
    line.add_argument("--naps", type=positive, default=20, help="naps in half a pair")
    line.add_argument("--seconds", type=positive, default=10, help="for each share of a core")
    said = line.parse(arguments)
    from tf_malleable.model import OperationError

    return finish(
        "lending",
        lambda: run(said.only, said.rounds, said.naps, said.seconds, said.out),
        OperationError,
    )


if __name__ == "__main__":
    sys.exit(main())
