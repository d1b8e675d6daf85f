# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Simulate 1,000 trainings on 1,000 and 250 nodes of 64 CPUs: elastic ones against static ones."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from benchmarks.cluster_size import static
from benchmarks.cluster_size.works import Outcome, Work, bound, works
from benchmarks.common.command_line import CommandLine, finish, positive, sayer

if TYPE_CHECKING:
    from benchmarks.common.rows import Row

CPUS: Final = 64
SEED: Final = 1
# Number of nodes, by name.
SIZES: Final = {"large": 1000, "crowded": 250}
# Parts of the workers that each training could use at most.
PARTS: Final = {"static: all workers": 1.0, "static: half": 0.5, "static: a quarter": 0.25}
_DECISION_SECONDS: Final = 1.0

Found = Mapping[int, Mapping[str, Outcome]]


def rows(found: Found, some: list[Work]) -> list[Row]:
    """Return how all ways fared."""
    from benchmarks.common.estimates import highest, median, once, percentile_99
    from benchmarks.common.rows import Row, Target

    made = []
    for nodes, ways in found.items():
        title = f"{nodes:,} nodes"
        least = once(bound(some, nodes * CPUS) / 60)
        made.append(Row("makespan", "none can be shorter, min", "", least, workload=title))
        for way, outcome in ways.items():
            made += [
                Row("makespan", f"{way}, min", "", once(outcome.makespan / 60), workload=title),
                Row(
                    "mean turnaround",
                    f"{way}, min",
                    "",
                    once(outcome.turnaround(some) / 60),
                    workload=title,
                ),
            ]
            if not outcome.decisions:
                continue
            made.append(
                Row("rescales", way, "", once(outcome.rescales / len(some)), workload=title)
            )
            import numpy as np

            samples = np.array(outcome.decisions)
            for label, statistic in (
                ("median", median),
                ("99th percentile", percentile_99),
                ("longest", highest),
            ):
                made.append(
                    Row(
                        "decisions",
                        f"{way}: {label}",
                        "seconds",
                        once(statistic(samples)),
                        Target(_DECISION_SECONDS) if statistic is highest else None,
                        workload=title,
                        remark=f"{len(samples)} decisions",
                    )
                )
    return made


def run(
    sizes: Sequence[str], policies: Sequence[str], count: int, interval: float, out: Path
) -> None:
    """Simulate, write and print."""
    from benchmarks.cluster_size.elastic import Simulation
    from benchmarks.cluster_size.picture import draw
    from benchmarks.common.results import Results
    from tf_malleable.policies.registry import create

    results = Results(
        "cluster_size", out, in_children=False, seed=SEED, trainings=count, interval=interval
    )
    say, some = sayer(), works(count, SEED)
    found: dict[int, dict[str, Outcome]] = {}
    for size in sizes:
        nodes = SIZES[size]
        ways = found.setdefault(nodes, {})
        for way, part in PARTS.items():
            ways[way] = static.run(some, nodes, CPUS, part)
            say(f"{size}: {way}")
        for policy in policies:

            def tell(text: str, where: str = f"{size}, {policy}") -> None:
                say(f"{where}: {text}")

            ways[policy] = Simulation(some, nodes, CPUS, create(policy), interval, tell).run()
            used = {n: {way: each.used for way, each in w.items()} for n, w in found.items()}
            draw(used, out / "cpus.png")
            results.write(
                rows(found, some),
                used=used,
                decisions={n: {way: e.decisions for way, e in w.items()} for n, w in found.items()},
            )
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    titles = {name: f"{nodes:,} nodes of {CPUS} CPUs" for name, nodes in SIZES.items()}
    line = CommandLine("cluster_size", str(__doc__), "out/cluster_size", titles)
    line.add_argument("--policies", nargs="+", default=["equal", "efficient", "srpt"])
    line.add_argument("--trainings", type=positive, default=1000, help="how many")
    line.add_argument(
        "--interval", type=positive, default=5, help="seconds between decisions, at least"
    )
    said = line.parse(arguments)
    names = said.only or tuple(SIZES)
    return finish(
        "cluster_size",
        lambda: run(names, said.policies, said.trainings, float(said.interval), said.out),
    )


if __name__ == "__main__":
    sys.exit(main())
