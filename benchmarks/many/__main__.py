# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure many trainings on one machine: under the controller, and without it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Final

from benchmarks.common.command_line import CommandLine, finish, positive
from benchmarks.many.workloads import WORKLOADS

_CHOICES: Final = {
    **{workload.letter: workload.title for workload in WORKLOADS.values()},
    "load": "128 jobs at one controller",
    "latency": "from a grant to its acknowledgement, beside trainings",
}


def are_runnable(only: Sequence[str]) -> None:
    """Do nothing if what the workloads import is installed.

    Raises:
        ValueError: It is not; says what is missing.
    """
    for workload in (WORKLOADS[name] for name in only if name in WORKLOADS):
        if workload.missing:
            missing = ", ".join(workload.missing)
            raise ValueError(f"{workload.letter!r} needs {missing}; see make bench-frameworks")


def policy(text: str) -> str:
    """Return an argument that names a policy."""
    from tf_malleable.policies import registry

    try:
        registry.create(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("many", str(__doc__), "out/many", _CHOICES)
    line.add_argument(
        "--policies",
        nargs="*",
        type=policy,
        metavar="POLICY",
        help="in place of those chosen for each workload; none: only the baselines",
    )
    line.add_argument("--no-baselines", action="store_true", help="only the controller")
    line.add_argument("--rounds", type=positive, default=2, help="runs of each configuration")
    said = line.parse(arguments, are_runnable)

    from benchmarks.many.run import Choice, run  # Heavy, and so only when nothing is refused.
    from tf_malleable.model import OperationError

    runnable = (name for name in _CHOICES if name not in WORKLOADS or not WORKLOADS[name].missing)
    choice = Choice(said.only or tuple(runnable), said.policies, not said.no_baselines, said.rounds)
    return finish("many", lambda: run(choice, said.out), OperationError)


if __name__ == "__main__":
    sys.exit(main())
