# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure power: calibration, metering, budgets of many units, and a budget that is kept."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from benchmarks.common.command_line import CommandLine, finish, positive, sayer

MEASURES: Final = {
    "calibration": "five points of each of 14 real servers, against their others",
    "metering": "CPU time of a second's metering, with 2, 16 and 128 jobs",
    "units": "a budget for 200 units by a real broker, until they have acknowledged it",
    "budget": "a mean budget, audited by a replayed meter while real trainings run",
}
JOBS: Final = (2, 16, 128)
UNITS: Final = 200
# Of servers.py: two processors, whose first busy cores cost most.
SERVER: Final = 4


def run(only: Sequence[str], rounds: int, length: int, out: Path) -> None:
    """Measure all that was selected, write and print it."""
    from benchmarks.common.results import Results
    from benchmarks.power.rows import rows

    results = Results("power", out, titles=MEASURES, in_children=False, length=length)
    say, samples = sayer(), dict[str, Any]()
    for measure in only or MEASURES:
        say(MEASURES[measure])
        samples[measure] = _measures(rounds, length)[measure]()
        results.write(rows(samples), samples=samples)
    results.tell()


def _measures(rounds: int, length: int) -> dict[str, Callable[[], Any]]:
    from benchmarks.power import budget, calibration, metering, units
    from benchmarks.power.servers import SERVERS

    def kept() -> dict[str, Any]:
        return asdict(budget.measure(SERVERS[SERVER], 0.5, 60.0, float(length), 20.0, 2))

    return {
        "calibration": calibration.errors,
        "metering": lambda: {
            jobs: [100 * metering.cost(jobs) for _ in range(max(5, rounds))] for jobs in JOBS
        },
        "units": lambda: [asdict(units.measure(UNITS, 10)) for _ in range(rounds)],
        "budget": lambda: [kept() for _ in range(rounds)],
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("power", str(__doc__), "out/power", MEASURES)
    line.add_argument("--rounds", type=positive, default=1, help="how often")
    line.add_argument("--length", type=positive, default=120, help="seconds to audit a budget")
    said = line.parse(arguments)
    return finish("power", lambda: run(said.only, said.rounds, said.length, said.out))


if __name__ == "__main__":
    sys.exit(main())
