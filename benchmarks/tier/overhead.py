# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measures what the shim of data tiers costs a program: hits, other opens, reads.

Each pair runs the same program without and with the shim, one after the other.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.common.command_line import finish, positive
from examples.command_line import Parser
from tests.support.tier_stand_in import StandIn

PROGRAM = Path(__file__).with_name("overhead.c")
SIZE = 64 << 20


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure what the command line says."""
    line = Parser("tier.overhead", description=__doc__)
    line.add_argument("--pairs", type=positive, default=9)
    line.add_argument("--rounds", type=positive, default=100, help="batches of 1000 in each run")
    said = line.parse_args(arguments)
    return finish("tier.overhead", lambda: run_all(said.pairs, said.rounds))


def run_all(pairs: int, rounds: int) -> None:
    """Measure everything and print a table."""
    with tempfile.TemporaryDirectory(prefix="tfm-overhead-") as folder:
        program = Path(folder, "overhead")
        subprocess.run(["cc", "-O2", PROGRAM, "-o", program], check=True)
        with StandIn(Path(folder, "tier")) as daemon:
            measure(daemon, program, pairs, rounds)


def measure(daemon: StandIn, program: Path, pairs: int, rounds: int) -> None:
    """Print the times of each case."""
    copied = daemon.make("set/copied", os.urandom(SIZE))
    daemon.python("import sys; open(sys.argv[1], 'rb').read()", copied)
    daemon.wait_for_copy(copied)
    above, away = daemon.folder, daemon.folder / "away"
    away.mkdir()
    for folder in (above, away):
        (folder / "other").write_bytes(copied.read_bytes())
    other = away / "other"
    cases = {
        "open, a complete copy": ("open", copied, rounds, away),
        "open, another file": ("open", other, rounds, away),
        "open, another, relative": ("open", "other", rounds, away),
        "open, another, relative, above": ("open", "other", rounds, above),
        "pread of 1 byte, a complete copy": ("read", copied, rounds, away),
        "pread of 1 byte, another file": ("read", other, rounds, away),
        "stat, a complete copy": ("stat", copied, rounds, away),
        "stat, another file": ("stat", other, rounds, away),
        "read, a complete copy, 1 MiB": ("stream", copied, max(rounds // 10, 1), away),
        "read, another file, 1 MiB": ("stream", other, max(rounds // 10, 1), away),
    }
    print(f"{'':36}{'plain':>10}{'shim':>10}{'more':>10}  ns, medians of {pairs} pairs")
    for name, (what, path, count, where) in cases.items():
        command = [str(program), what, str(path), str(count)]
        plain, shim = [], []
        for pair in range(pairs):
            for with_shim in (False, True) if pair % 2 == 0 else (True, False):
                # What the tier gives is held against the local file that it is.
                if what == "stream" and path == copied and not with_shim:
                    command[2] = str(daemon.copy_of(copied))
                else:
                    command[2] = str(path)
                took = run(daemon, command, where, with_shim)
                (shim if with_shim else plain).append(took)
        more = statistics.median(b - a for a, b in zip(plain, shim, strict=True))
        ratio = statistics.median(a / b for a, b in zip(plain, shim, strict=True))
        print(
            f"{name:36}{statistics.median(plain):10.1f}{statistics.median(shim):10.1f}"
            f"{more:10.1f}  ratio {ratio:.3f}",
            flush=True,
        )


def run(daemon: StandIn, command: list[str], where: Path, with_shim: bool) -> float:
    """Return what the program printed."""
    environment = daemon.environment() if with_shim else None
    done = subprocess.run(
        command, env=environment, cwd=where, stdout=subprocess.PIPE, check=True, text=True
    )
    return float(done.stdout)


if __name__ == "__main__":
    sys.exit(main())
