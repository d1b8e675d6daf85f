# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Compare policies on streams of random jobs, paired by seed, with 95 % intervals."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.common import machine
from benchmarks.common.command_line import finish, positive, sayer
from benchmarks.streams.cells import cells
from benchmarks.streams.ratios import (
    MEASURES,
    Fared,
    against_best,
    by_cell,
    compare,
    summary,
    table,
)
from benchmarks.streams.runs_file import Key, RunsFile
from benchmarks.streams.simulated import bound, reference, simulated
from examples.command_line import Parser
from tf_malleable.policies import registry

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from benchmarks.common.estimates import Estimate
    from benchmarks.streams.ratios import Runs

BASE: Final = "equal"
BOUND: Final = "bound"
REFERENCE: Final = "reference"
BEST: Final = "best"
_COLUMNS: Final = (
    *((BASE, measure) for measure in MEASURES),
    (BEST, "turnaround"),
    (BEST, "makespan"),
    (REFERENCE, "turnaround"),
)
_POLICIES: Final = (
    BASE,
    registry.DEFAULT,
    "lend+efficient",
    "lend+fcfs-max-prop",
    REFERENCE,
    BOUND,
)


def one(key: Key) -> Fared:
    """Return how a stream fares; of the bound, its mean turnaround alone."""
    cell = cells()[key.cell]
    if key.policy == BOUND:
        return Fared(bound(cell.tasks(key.seed), cell.cores), 1.0, 1.0)
    if key.policy == REFERENCE:
        return reference(cell, key.seed)
    return simulated(key.policy, cell, key.seed)


def draw(runs: Runs, base: str) -> Figure:
    """Return a figure with a row for each cell: the mean turnaround of each policy."""
    from matplotlib.figure import Figure

    from tf_malleable.figures import style

    found = compare(runs, base)
    policies = list(dict.fromkeys(name for each in found.values() for name in each if name != base))
    figure = Figure(figsize=(8, 0.16 * len(found) + 1.2), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1.0, color="#9A9A9A", linewidth=0.8)
    for number, policy in enumerate(policies):
        color = style.COLOURS[number % len(style.COLOURS)]
        rows = [row for row, each in enumerate(found.values()) if policy in each]
        ratios = [each[policy]["turnaround"] for each in found.values() if policy in each]
        lows, highs = [each.low for each in ratios], [each.high for each in ratios]
        axes.hlines(rows, lows, highs, color=color, linewidth=1.5, alpha=0.4)
        values = [each.value for each in ratios]
        axes.plot(values, rows, ".", color=color, label=policy)
    axes.set_yticks(range(len(found)), list(found), fontsize=style.SMALL)
    axes.invert_yaxis()
    axes.set_xlabel(f"mean turnaround relative to {base}, with 95 % intervals")
    axes.legend(loc="upper left")
    return figure


def seeds(text: str) -> list[int]:
    """Return the seeds of an argument such as 1-20 or 3,5,9."""
    try:
        found: list[int] = []
        for part in text.split(","):
            first, _, last = part.partition("-")
            found += range(int(first), int(last or first) + 1)
    except ValueError:
        found = []
    if not found:
        raise argparse.ArgumentTypeError(f"must be seeds such as 1-20 or 3,5,9, not {text!r}")
    return found


def policy(text: str) -> str:
    """Return an argument that names a policy, the reference or the bound."""
    try:
        if text not in (BOUND, REFERENCE):
            registry.create(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def run(keys: Iterable[Key], workers: int, out: Path, as_json: bool) -> None:
    """Simulate what is not finished yet, write, and print."""
    file, say = RunsFile(out / "runs.jsonl", machine.describe()["commit"]), sayer()
    keys = list(keys)
    left = [key for key in keys if key not in file.found]
    with ProcessPoolExecutor(workers) as pool:
        for number, (key, fared) in enumerate(zip(left, pool.map(one, left), strict=True), 1):
            file.add(key, fared)
            if not as_json:
                say(f"{number} of {len(left)}: {key.cell}, {key.policy}, seed {key.seed}")
    runs: dict[str, dict[str, dict[int, Fared]]] = {}
    for key in keys:
        runs.setdefault(key.cell, {}).setdefault(key.policy, {})[key.seed] = file.found[key]
    content = results(runs)
    (out / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    draw(runs, BASE).savefig(out / "results.png", dpi=120)
    against = in_their_cells(runs)
    (out / "settings.md").write_text(by_cell(against, _COLUMNS) + "\n")
    if as_json:
        print(json.dumps(content))
        return
    print(f"{' / '.join(MEASURES)}\n\n{table(runs, BASE)}")
    if found := {name: each for name, each in against.items() if each}:
        print(f"\n{registry.DEFAULT} relative to others\n\n{summary(found)}")


def in_their_cells(runs: Runs) -> dict[str, dict[str, dict[str, Estimate]]]:
    """Return the default's ratios to the base, the best policy of each cell, and who knows all.

    Each is empty if not all of those policies were run.
    """
    every = {name for policies in runs.values() for name in policies}
    return {
        name: against_best(runs, registry.DEFAULT, others)
        for name, others in (
            (BASE, [BASE]),
            (BEST, sorted(every - {BOUND, REFERENCE})),
            (REFERENCE, [REFERENCE]),
        )
    }


def results(runs: Runs) -> Mapping[str, object]:
    """Return the ratios of all cells as plain data."""
    return {
        **machine.describe(),
        "relative to": BASE,
        "cells": {
            cell: {
                name: {measure: asdict(ratio) for measure, ratio in ratios.items()}
                for name, ratios in policies.items()
            }
            for cell, policies in compare(runs, BASE).items()
        },
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = Parser("streams", description=__doc__)
    line.add_argument("--cells", nargs="+", default=["*"], help="names or patterns: '64 cores*'")
    line.add_argument("--seeds", type=seeds, default=seeds("1-20"), help="1-20 or 3,5,9")
    line.add_argument("--policies", nargs="+", type=policy, default=_POLICIES)
    line.add_argument(
        "--known-seeds",
        type=positive,
        default=1,
        help="how many of the seeds the bound and the reference have",
    )
    line.add_argument("--workers", type=positive, default=len(os.sched_getaffinity(0)))
    line.add_argument("--out", type=Path, default=Path("out/streams"))
    line.add_argument("--json", action="store_true", help="print results.json, and no progress")
    line.add_argument("--list", action="store_true", help="print the cells and end")
    said = line.parse_args(arguments)
    chosen = [name for name in cells() if any(fnmatchcase(name, pattern) for pattern in said.cells)]
    if not chosen:
        line.error(f"--cells: no cell is called {' or '.join(said.cells)}; see --list")
    if said.list:
        print(*(f"{name}: {cells()[name].spec}" for name in chosen), sep="\n")
        return 0
    said.out.mkdir(parents=True, exist_ok=True)
    policies = list(dict.fromkeys([BASE, *said.policies]))
    known = said.seeds[: said.known_seeds]
    keys = [
        Key(cell, name, seed)
        for seed in said.seeds
        for cell in chosen
        for name in policies
        if seed in known or name not in (BOUND, REFERENCE)
    ]
    return finish("streams", lambda: run(keys, said.workers, said.out, said.json))


if __name__ == "__main__":
    sys.exit(main())
