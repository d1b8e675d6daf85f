# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Simulate all policies on the corpus, and compare them with static alternatives."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.common.command_line import CommandLine, finish, sayer
from benchmarks.common.policies import all_policies
from benchmarks.tournament.corpus import CORPUS, SIZES
from benchmarks.tournament.fared import Fared, Standing, fared, standings, table
from benchmarks.tournament.static import alternatives
from benchmarks.tournament.works import run

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def case(workload: str, cores: int, policies: Sequence[str]) -> list[Fared]:
    """Return how all policies fare with a workload."""
    works = CORPUS[workload](cores)
    static = alternatives(works, cores)
    return [
        fared(policy, workload, cores, works, run(policy, works, cores), static)
        for policy in policies
    ]


def draw(found: Sequence[Standing]) -> Figure:
    """Return a figure with a row for each policy, the best first: its mean and worst ratios."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 0.27 * len(found) + 1.3), layout="constrained")
    axes = figure.subplots()
    axes.axvline(1.0, color="#9A9A9A", linewidth=0.8)
    measures = (
        (
            "makespan",
            "o",
            "#1F5F99",
            -0.16,
            [(each.makespan, each.worst_makespan) for each in found],
        ),
        (
            "mean turnaround",
            "s",
            "#D95F02",
            0.16,
            [(each.turnaround, each.worst_turnaround) for each in found],
        ),
    )
    for label, marker, color, shift, ratios in measures:
        rows = [row + shift for row in range(len(found))]
        means, worst = [mean for mean, _ in ratios], [most for _, most in ratios]
        axes.hlines(rows, means, worst, color=color, linewidth=1.0, alpha=0.5)
        axes.plot(means, rows, marker, color=color, markersize=5, label=label)
        axes.plot(worst, rows, "|", color=color, markersize=6)
    axes.set_yticks(
        range(len(found)), [f"{each.policy}  {each.good}/{each.cases}" for each in found]
    )
    axes.invert_yaxis()
    axes.set_xlabel(
        "relative to the best static alternative: geometric mean, and a line to the worst case"
    )
    axes.legend(loc="lower right")
    return figure


def compete(policies: Sequence[str], out: Path) -> None:
    """Simulate, write and print."""
    say, found = sayer(), []
    cases = [(workload, cores) for workload in CORPUS for cores in SIZES]
    with ProcessPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for (workload, cores), fares in zip(
            cases, pool.map(case, *zip(*cases, strict=True), [policies] * len(cases)), strict=True
        ):
            found += fares
            say(f"{workload} on {cores}")
    standing = standings(found)
    content = {
        "standings": [asdict(each) for each in standing],
        "cases": [asdict(each) for each in found],
    }
    (out / "results.json").write_text(json.dumps(content, indent=1) + "\n")
    draw(standing).savefig(out / "results.png", dpi=150)
    print(table(standing))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    names = all_policies()
    line = CommandLine("tournament", str(__doc__), "out/tournament", names)
    said = line.parse(arguments)
    return finish("tournament", lambda: compete(said.only or tuple(names), said.out))


if __name__ == "__main__":
    sys.exit(main())
