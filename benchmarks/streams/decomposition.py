# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure what each thing that the default does not know, or does, costs on streams."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from statistics import geometric_mean
from typing import Final

from benchmarks.common.command_line import sayer
from benchmarks.streams.cells import Cell, cells
from benchmarks.streams.ratios import Fared, mean_ratio
from benchmarks.streams.simulated import fared
from examples.command_line import Parser
from tf_malleable.model import Machine
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.queues.srpt import SrptPolicy
from tf_malleable.policies.wrappers.lend import LendPolicy
from tf_malleable.simulate.engine.foresight import Clairvoyance
from tf_malleable.simulate.engine.host import Delays
from tf_malleable.simulate.engine.simulation import Scenario, simulate

# A dozen cells: of the grid, each size of machine and serial part with each distribution of sizes
# and load once, and six of those drawn.
CELLS: Final = (
    "16 cores, 0.05 serial, max 16, exponential, load 1",
    "16 cores, 0.3 serial, max 4, lognormal, load 0.8",
    "16 cores, 0.3 serial, max 16, pareto, load 0.5",
    "64 cores, 0.05 serial, max 64, exponential, load 0.5",
    "64 cores, 0.05 serial, max 64, lognormal, load 0.8",
    "64 cores, 0.3 serial, max 16, pareto, load 1",
)
DRAWN: Final = ("8:", "9:", "11:", "13:", "14:", "15:")
_AT_ONCE: Final = Delays(0.0, 0.0, 0.0)
_ALL: Final = Clairvoyance(sizes=True, curves=True)

DEFAULT: Final = LendPolicy(SrptPolicy())
_NONE: Final = Clairvoyance()
_USUAL: Final = Delays()
# Policy, foresight and delays.
SWITCHES: Final[Mapping[str, tuple[Policy, Clairvoyance, Delays]]] = {
    "the default": (DEFAULT, _NONE, _USUAL),
    "sizes are known": (DEFAULT, Clairvoyance(sizes=True), _USUAL),
    "curves are known": (DEFAULT, Clairvoyance(curves=True), _USUAL),
    "both are known": (DEFAULT, _ALL, _USUAL),
    "cores move at once": (DEFAULT, _NONE, _AT_ONCE),
    "all of these": (DEFAULT, _ALL, _AT_ONCE),
    "no lending": (SrptPolicy(), _NONE, _USUAL),
}


def switched(name: str, cell: Cell, seed: int) -> Fared:
    """Return how a stream fares with a switch."""
    policy, foresight, delays = SWITCHES[name]
    machine = Machine.flat(cell.cores)
    scenario = Scenario((machine,), seed, cell.noise, delays, foresight)
    tasks = cell.tasks(seed)
    return fared(tasks, simulate(tasks, policy, scenario).history.jobs, cell.cores)


def chosen() -> list[Cell]:
    """Return the dozen cells."""
    found = cells()
    drawn = [name for start in DRAWN for name in found if name.startswith(start)]
    return [found[name] for name in (*CELLS, *drawn)]


def table(found: Mapping[str, Mapping[str, Sequence[Fared]]]) -> str:
    """Return a Markdown table of mean turnarounds relative to the default.

    Args:
        found: How each stream fared, by switch and by cell.
    """
    base = found["the default"]
    lines = [
        "| switch | mean turnaround | best cell | worst cell | makespan |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, of in found.items():
        ratios, spans = [], []
        for cell, each in of.items():
            ratios.append(mean_ratio(each, base[cell], "turnaround").value)
            spans.append(mean_ratio(each, base[cell], "makespan").value)
        lines.append(
            f"| {name} | {geometric_mean(ratios):.3f} | {min(ratios):.3f} | {max(ratios):.3f} |"
            f" {geometric_mean(spans):.3f} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = Parser("decomposition", description=__doc__)
    line.add_argument("--seeds", type=int, default=5, help="seeds, from 1001 on")
    line.add_argument("--only", nargs="+", choices=list(SWITCHES), default=list(SWITCHES))
    said = line.parse_args(arguments)
    say, found = sayer(), {}
    names = list(dict.fromkeys(["the default", *said.only]))
    for name in names:
        found[name] = {
            cell.name: [switched(name, cell, 1001 + n) for n in range(said.seeds)]
            for cell in chosen()
        }
        say(name)
    print(f"\n{table(found)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
