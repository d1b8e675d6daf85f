# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure llama.cpp's server while its container's CPU quota changes; root, two cores.

It builds llama.cpp once, in about 15 minutes, with what it downloads from PyPI.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.command_line import CommandLine, finish, positive


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("llama", str(__doc__), "out/llama", {"generation": "see above"})
    line.add_argument("--rounds", type=positive, default=5, help="how often to measure each")
    line.add_argument(
        "--threads",
        type=positive,
        nargs="+",
        default=[16],
        help="threads of the server, as on hosts with so many cores",
    )
    line.add_argument(
        "--cache", type=Path, default=Path("build/llama"), help="folder for llama.cpp and the model"
    )
    said = line.parse(arguments)

    from benchmarks.llama.run import run  # Heavy, and so only when nothing is refused.

    return finish("llama", lambda: run(said.rounds, said.threads, said.cache, said.out))


if __name__ == "__main__":
    sys.exit(main())
