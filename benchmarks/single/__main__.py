# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure tf_malleable against stock TensorFlow, in pairs, and hold it to its targets."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.common.command_line import CommandLine, finish, positive
from benchmarks.single.names import FULL, QUICK, choices, select


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("single", str(__doc__), "out/bench", choices())
    line.add_argument("--quick", action="store_true", help="measure less, for a quick look")
    line.add_argument("--generations", type=positive, help="how often to start all processes")
    line.add_argument("--rounds", type=positive, help="rounds for each generation of processes")
    said = line.parse(arguments, select)
    chosen = {"generations": said.generations, "rounds": said.rounds}
    effort = replace(
        QUICK if said.quick else FULL,
        **{name: number for name, number in chosen.items() if number},
    )

    from benchmarks.single.run import run  # Heavy, and so only when nothing is refused.

    return finish("single", lambda: run(select(said.only), effort, said.out))


if __name__ == "__main__":
    sys.exit(main())
