# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure how far each constant of the default matters, on a dozen settings of streams."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, replace
from itertools import product
from pathlib import Path
from statistics import geometric_mean
from typing import TYPE_CHECKING, Final

from benchmarks.common import machine
from benchmarks.common.command_line import finish, positive, sayer
from benchmarks.streams.decomposition import chosen
from benchmarks.streams.ratios import Fared
from benchmarks.streams.simulated import simulated
from examples.command_line import Parser
from tf_malleable.policies.queues.srpt import USUAL, SrptPolicy
from tf_malleable.policies.wrappers.lend import LendPolicy

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FACTORS: Final = (0.25, 0.5, 2.0, 4.0)
VALUES: Final[Mapping[str, Sequence[float]]] = {
    "urgency": (0.0, 0.25, 0.375, 0.625, 0.75, 1.0),
    "later": (0.0, 0.1, 0.2, 0.6, 0.8, 1.0),
    "noise": tuple(USUAL.noise * factor for factor in _FACTORS),
    "usual_seconds": tuple(USUAL.usual_seconds * factor for factor in _FACTORS),
}
"""Values that are tried beside the usual one, by constant."""

Key = tuple[str, float, str, int]
"""Constant, value, cell and seed."""


def one(key: Key) -> Fared:
    """Return how a stream fares with another value of a constant."""
    name, value, cell, seed = key
    policy = LendPolicy(SrptPolicy(replace(USUAL, **{name: value})))
    (found,) = [each for each in chosen() if each.name == cell]
    return simulated(policy, found, seed)


def points(found: Mapping[Key, Fared]) -> dict[str, dict[float, dict[str, float]]]:
    """Return the ratios to the usual value: by constant, value and measure.

    Of the turnaround also those of the settings in which it is best and worst.
    """
    ratios: dict[str, dict[float, dict[str, float]]] = {}
    for name, value in dict.fromkeys(key[:2] for key in found):
        usual = getattr(USUAL, name)
        turnarounds: dict[str, list[float]] = {}
        makespans: list[float] = []
        for key, fared in found.items():
            if key[:2] == (name, value):
                base = found[(name, usual, *key[2:])]
                turnarounds.setdefault(key[2], []).append(fared.turnaround / base.turnaround)
                makespans.append(fared.makespan / base.makespan)
        means = [geometric_mean(each) for each in turnarounds.values()]
        ratios.setdefault(name, {})[value] = {
            "turnaround": geometric_mean(means),
            "best": min(means),
            "worst": max(means),
            "makespan": geometric_mean(makespans),
        }
    return ratios


def draw(ratios: Mapping[str, Mapping[float, Mapping[str, float]]]) -> Figure:
    """Return a figure with axes for each constant."""
    from matplotlib.figure import Figure

    from tf_malleable.figures import style

    figure = Figure(figsize=(9, 2.6), layout="constrained")
    grid = figure.subplots(1, len(ratios), sharey=True, squeeze=False)
    for axes, (name, values) in zip(grid[0], ratios.items(), strict=True):
        shown = sorted(values)
        for measure, color in zip(("turnaround", "makespan"), style.COLOURS, strict=False):
            label = "mean turnaround" if measure == "turnaround" else measure
            axes.plot(shown, [values[x][measure] for x in shown], ".-", color=color, label=label)
        axes.axvline(getattr(USUAL, name), color="#9A9A9A", linewidth=0.8)
        axes.set_xlabel(name)
    figure.axes[0].set_ylabel("relative to the usual value")
    figure.axes[-1].legend()
    return figure


def run(constants: Sequence[str], seeds: int, workers: int, out: Path) -> None:
    """Simulate, write and print."""
    cells = [cell.name for cell in chosen()]
    keys = [
        (name, value, cell, 1001 + seed)
        for name in dict.fromkeys(constants)
        for value in sorted({*VALUES[name], getattr(USUAL, name)})
        for cell, seed in product(cells, range(seeds))
    ]
    say, found = sayer(), {}
    with ProcessPoolExecutor(workers) as pool:
        for number, (key, fared) in enumerate(zip(keys, pool.map(one, keys), strict=True), 1):
            found[key] = fared
            say(f"{number} of {len(keys)}: {key[0]} {key[1]:g}, {key[2]}")
    ratios = points(found)
    out.mkdir(parents=True, exist_ok=True)
    content = {**machine.describe(), "seeds": seeds, "usual": asdict(USUAL), "ratios": ratios}
    (out / "sensitivity.json").write_text(json.dumps(content, indent=1) + "\n")
    draw(ratios).savefig(out / "sensitivity.png", dpi=120)
    titles = ("constant", "value", "mean turnaround", "best setting", "worst setting", "makespan")
    print(f"\n| {' | '.join(titles)} |\n{'| --- ' * len(titles)}|")
    for name, values in ratios.items():
        for value, each in sorted(values.items()):
            print(f"| {name} | {value:g} | {' | '.join(f'{x:.3f}' for x in each.values())} |")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = Parser("sensitivity", description=__doc__)
    line.add_argument("--constants", nargs="+", choices=list(VALUES), default=list(VALUES))
    line.add_argument("--seeds", type=positive, default=5, help="seeds, from 1001 on")
    line.add_argument("--workers", type=positive, default=len(os.sched_getaffinity(0)))
    line.add_argument("--out", type=Path, default=Path("out/streams"))
    said = line.parse_args(arguments)
    return finish("sensitivity", lambda: run(said.constants, said.seeds, said.workers, said.out))


if __name__ == "__main__":
    sys.exit(main())
