# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure OpenMP programs under a limit of 2 against those started with 2; two cores will do."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.common.command_line import CommandLine, finish, positive
from benchmarks.openmp.names import WORKLOADS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("openmp", str(__doc__), "out/openmp", WORKLOADS)
    line.add_argument("--rounds", type=positive, default=7, help="how often to measure each")
    line.add_argument(
        "--capacity",
        type=positive,
        nargs="+",
        default=[2, 16, 64],
        help="numbers of threads to start with",
    )
    said = line.parse(arguments)

    from benchmarks.openmp.run import run  # Heavy, and so only when nothing is refused.

    return finish("openmp", lambda: run(said.only, said.capacity, said.rounds, said.out))


if __name__ == "__main__":
    sys.exit(main())
