# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure OpenMP programs under a limit against those started with it; two cores will do."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.common.command_line import CommandLine, finish, positive
from benchmarks.openmp.names import WAYS, WORKLOADS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("openmp", str(__doc__), "out/openmp", WORKLOADS)
    line.add_argument("--rounds", type=positive, default=7, help="how often to measure each")
    line.add_argument(
        "--limits", type=positive, nargs="+", default=[2], help="numbers of threads to compute with"
    )
    line.add_argument("--ways", nargs="+", choices=WAYS, default=WAYS, help="what is measured")
    line.add_argument("--seconds", type=float, default=1.0, help="length of each measurement")
    line.add_argument(
        "--capacity",
        type=positive,
        nargs="+",
        default=[2, 16, 64],
        help="numbers of threads to start with",
    )
    line.add_argument(
        "--speed-up", type=positive, metavar="N", help="measure only the speed-up from 1 to N"
    )
    line.add_argument(
        "--enlarge", action="store_true", help="measure only what is given a second thread"
    )
    line.add_argument(
        "--settle", action="store_true", help="measure only how soon changes are followed"
    )
    said = line.parse(arguments)

    # Heavy, and so only when nothing is refused.
    from benchmarks.openmp.run import run, run_enlarging, run_settling, run_speed_ups

    if said.enlarge:
        return finish(
            "openmp", lambda: run_enlarging(said.only, said.rounds, said.seconds, said.out)
        )
    if said.settle:
        return finish("openmp", lambda: run_settling(said.only, said.rounds, said.out))
    if said.speed_up is not None:
        return finish(
            "openmp",
            lambda: run_speed_ups(said.only, said.speed_up, said.rounds, said.seconds, said.out),
        )

    return finish(
        "openmp",
        lambda: run(
            said.only,
            said.limits,
            said.capacity,
            said.ways,
            said.rounds,
            said.seconds,
            said.out,
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
