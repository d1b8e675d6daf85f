# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure the operator on the cluster of KUBECONFIG, which tools/real_cluster.py has started.

It kills processes of pods, so the nodes must be on this machine. --fake tries a measure on the
tests' fake cluster.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common.command_line import BenchmarkError, CommandLine, finish, positive, sayer
from benchmarks.real_cluster.names import (
    GROWTH,
    MEASURES,
    OPERATOR_KILLED,
    OPERATOR_LEADS,
    REFUSED,
    ROOM,
    SIZES,
    TERM,
    WAY,
    WORKER_KILLED,
)


def measured(name: str, sizes: Mapping[str, int], *, fake: bool) -> Any:  # noqa: ANN401
    """Measure one thing; return plain data.

    Raises:
        BenchmarkError: It cannot be measured, or the operator does not do what it must.
    """
    from benchmarks.real_cluster import operators, workers
    from benchmarks.real_cluster.place import Place, place

    ways: Mapping[str, Callable[[Place], Any]] = {
        ROOM: lambda here: workers.room(here, sizes["times"]),
        WORKER_KILLED: lambda here: workers.worker_killed(here, sizes["times"]),
        TERM: lambda here: workers.term(here, sizes["moments"]),
        WAY: lambda here: workers.way(here, sizes["rounds"]),
        REFUSED: lambda here: operators.refused(here, sizes["seconds"]),
        OPERATOR_KILLED: lambda here: operators.killed(here, sizes["kills"]),
        OPERATOR_LEADS: lambda here: operators.leads(here, sizes["times"]),
        GROWTH: lambda here: workers.growth(here, sizes["length"]),
    }
    with place(fake=fake) as here:
        return ways[name](here)


def run(measures: Sequence[str], out: Path, sizes: Mapping[str, int], *, fake: bool) -> None:
    """Measure, write and print; what cannot be measured does not keep the others from it.

    Raises:
        BenchmarkError: Something could not be measured.
    """
    from benchmarks.common.results import Results
    from benchmarks.real_cluster.rows import rows

    results = Results("real_cluster", out, in_children=False, fake=fake, sizes=dict(sizes))
    samples: dict[str, Any] = {}
    problems: dict[str, str] = {}
    say = sayer()
    for name in measures:
        say(name)
        try:
            samples[name] = measured(name, sizes, fake=fake)
        except BenchmarkError as error:
            problems[name] = str(error)
            say(f"{name}: {error}")
        results.write(rows(samples), samples=samples, problems=problems)
    results.tell()
    if problems:
        raise BenchmarkError(f"not measured: {', '.join(problems)}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("real_cluster", str(__doc__), "out/real_cluster", MEASURES)
    line.add_argument("--fake", action="store_true", help="on the tests' fake cluster")
    for name, (default, what) in SIZES.items():
        line.add_argument(f"--{name}", type=positive, default=default, help=what)
    said = line.parse(arguments)
    sizes = {name: vars(said)[name] for name in SIZES}
    measures = said.only or tuple(MEASURES)
    return finish("real_cluster", lambda: run(measures, said.out, sizes, fake=said.fake))


if __name__ == "__main__":
    sys.exit(main())
