# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure the live page with 128 jobs on 64 CPUs: how late it is, and what it costs."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.common.command_line import CommandLine, finish, positive, sayer

MEASURES: Final = {
    "pixel": "from a change in the controller to a frame of a real browser",
    "load": "CPU time of tfm web without viewers, with one, and with ten",
    "grants": "how long grants take without viewers and with ten",
}


def run(only: Sequence[str], rounds: int, changes: int, seconds: int, out: Path) -> None:
    """Measure all that was selected, write and print it."""
    from benchmarks.common.results import Results
    from benchmarks.page.measures import grants, load, to_pixel
    from benchmarks.page.processes import CPUS, JOBS, service
    from benchmarks.page.rows import rows

    results = Results("page", out, titles=MEASURES, cpus=CPUS, jobs=JOBS, in_children=False)
    say, samples = sayer(), dict[str, Any]()
    with tempfile.TemporaryDirectory() as directory, service(directory) as socket:
        for measure in only or MEASURES:
            say(MEASURES[measure])
            if measure == "pixel":
                samples[measure] = to_pixel(socket, changes)
            elif measure == "load":
                samples[measure] = load(socket, max(1, rounds // 4), float(seconds))
            else:
                samples[measure] = grants(socket, rounds, changes)
            results.write(rows(samples), samples=samples)
    results.tell()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("page", str(__doc__), "out/page", MEASURES)
    line.add_argument("--rounds", type=positive, default=12, help="pairs, with viewers and without")
    line.add_argument(
        "--changes", type=positive, default=100, help="changes to see, and grants in half a pair"
    )
    line.add_argument("--seconds", type=positive, default=10, help="for each share of a core")
    said = line.parse(arguments)
    return finish("page", lambda: run(said.only, said.rounds, said.changes, said.seconds, said.out))


if __name__ == "__main__":
    sys.exit(main())
