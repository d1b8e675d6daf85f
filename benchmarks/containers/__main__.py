# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure containers whose CPUs change: against stock TensorFlow, by hand and controlled.

It needs a Docker engine: tools/docker_engine.py --install -- COMMAND gives it one.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.common.command_line import CommandLine, finish, positive

_CHOICES: Final = {
    "quota": "a quota of 2 CPUs where TensorFlow believes in 64, against stock",
    "resize": "from a change of a container's CPUs to limits that have settled",
    "enlarge": "a training that gets its second CPU under way",
    "arrivals": "16 containers that arrive at random, run in six ways",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("containers", str(__doc__), "out/containers", _CHOICES)
    line.add_argument("--rounds", type=positive, default=2, help="of arrivals")
    said = line.parse(arguments)

    # Heavy, and so only when nothing is refused.
    from benchmarks.containers.place import ERRORS
    from benchmarks.containers.run import run

    names = said.only or tuple(_CHOICES)
    return finish("containers", lambda: run(names, said.rounds, said.out), *ERRORS)


if __name__ == "__main__":
    sys.exit(main())
