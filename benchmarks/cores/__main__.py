# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure a limit of 2 at capacities as of hosts with many cores; two cores will do."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.common.command_line import CommandLine, finish, positive
from benchmarks.common.worker import OF_CORES
from benchmarks.cores.names import MEASURES


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    choices = {**MEASURES, **dict.fromkeys(OF_CORES, "a workload of the capacities")}
    line = CommandLine("cores", str(__doc__), "out/cores", choices)
    line.add_argument("--rounds", type=positive, default=3, help="how often to measure it all")
    said = line.parse(arguments)

    from benchmarks.cores.run import run  # Heavy, and so only when nothing is refused.

    return finish("cores", lambda: run(said.only, said.rounds, said.out))


if __name__ == "__main__":
    sys.exit(main())
