# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Measure what needs many cores, in parts with a time limit each, and print JSON.

A part that fails, or takes too long, is reported, and the next one begins. tools/many_cores.sh
runs this on a machine without a network and without TensorFlow.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks.common.command_line import CommandLine, finish, positive, sayer

PARTS: Final = {
    "trainings": "PyTorch trainings side by side, under policies and without a controller",
    "openmp": "limits of OpenMP programs, against programs started with that number of threads",
    "grants": "how long grants take with 64 jobs, and what they cost the controller",
    "simulator": "simulations of the runs of `trainings`",
    "tier": "a cold epoch of large files and of small ones, with a tier and without",
}
# Seconds of twelve minutes, of which the set-up needs the rest.
_LIMITS: Final = {"trainings": 330, "openmp": 130, "grants": 70, "simulator": 30, "tier": 110}
_MINUTES: Final = 12
# For the clean-up of a part that is interrupted.
_END_SECONDS: Final = 15.0
_LAST_LINES: Final = 5
_WORKLOADS: Final = ("torch-convolution", "sklearn-kmeans", "numba-prange")


@dataclass(frozen=True)
class Part:
    """A part: its command, the file it writes, and the seconds after which it is ended."""

    words: tuple[str, ...]
    file: Path
    limit: float

    def run(self) -> dict[str, Any]:
        """Run it, and return how that went and what it found so far, if anything."""
        self.file.unlink(missing_ok=True)
        log = self.file.with_suffix(".log")
        begin = time.monotonic()
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *self.words],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            with suppress(subprocess.TimeoutExpired):
                process.wait(self.limit)
        finally:
            _end(process)
        code, seconds = process.returncode, time.monotonic() - begin
        said: dict[str, Any] = {"seconds": round(seconds, 1), "exit_code": code}
        if code != 0:
            lines = log.read_text(errors="replace").strip().splitlines()
            said["problem"] = (
                [f"ended after {self.limit:g} s"] if seconds >= self.limit else []
            ) + lines[-_LAST_LINES:]
        try:
            said["found"] = json.loads(self.file.read_text())
        except (OSError, ValueError):
            said["found"] = None
        return said


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a part that still runs: it ends its own programs first. None of its session is left."""
    if process.poll() is None:
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(_END_SECONDS)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def parts(out: Path, rounds: int, seconds: int, minutes: int) -> dict[str, Part]:
    """Return all parts for the CPUs that this process may use."""
    cores = len(os.sched_getaffinity(0))
    limits = tuple(str(n) for n in powers_of_two(cores))
    own = ("benchmarks.many_cores.measures",)
    size = ("--rounds", str(rounds), "--seconds", str(seconds), "--out", str(out))
    openmp = ("benchmarks.openmp", "--only", *_WORKLOADS, "--ways", "limited")
    openmp += ("--capacity", str(cores), "--limits", *limits)
    tier = ("benchmarks.tier", "--only", "cold-8", "cold-small", "--arms", "plain", "tier")
    words = {
        **{name: (*own, name, *size) for name in ("trainings", "grants", "simulator")},
        "openmp": (*openmp, "--rounds", str(rounds), "--seconds", "0.4", "--out", str(out)),
        "tier": (*tier, "--rounds", "1", "--out", str(out)),
    }
    return {
        name: Part(words[name], out / f"{name}.json", _LIMITS[name] * minutes / _MINUTES)
        for name in PARTS
    }


def powers_of_two(most: int) -> list[int]:
    """Return 1, 2, 4, … and the number itself."""
    return sorted({most, *(1 << n for n in range(most.bit_length()) if 1 << n <= most)})


def run(names: Sequence[str], rounds: int, seconds: int, minutes: int, out: Path) -> None:
    """Run parts, and print what they found."""
    from benchmarks.common.machine import describe  # Heavy, and so only when nothing is refused.

    say, found = sayer(sys.stderr), {**describe(), "rounds": rounds, "parts": dict[str, Any]()}
    chosen = parts(out, rounds, seconds, minutes)
    for name in names or PARTS:
        say(f"{name}: {PARTS[name]}, at most {chosen[name].limit:g} s")
        found["parts"][name] = chosen[name].run()
        for line in found["parts"][name].get("problem", ()):
            say(f"  {line}")
        (out / "all.json").write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line says."""
    line = CommandLine("many_cores", str(__doc__), "out/many_cores", PARTS)
    line.formatter_class = argparse.RawDescriptionHelpFormatter
    line.add_argument("--rounds", type=positive, default=3, help="runs of each kind")
    line.add_argument(
        "--seconds", type=positive, default=2, help="about how long a training has all cores"
    )
    line.add_argument(
        "--minutes",
        type=positive,
        default=_MINUTES,
        help="time for all parts, of which each has its share",
    )
    said = line.parse(arguments)
    return finish(
        "many_cores",
        lambda: run(said.only, said.rounds, said.seconds, said.minutes, said.out),
    )


if __name__ == "__main__":
    sys.exit(main())
