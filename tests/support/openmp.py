# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Programs of `tfm run` that tell how large their teams are, and are confined from outside."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import tf_malleable.runtime
from tests.support import ROOT
from tests.support.cgroups import Group
from tests.support.controllers import TFM
from tests.support.deadline import DEADLINE

HOOK = Path(tf_malleable.runtime.__file__).with_name("libtf_malleable_openmp.so")
SOURCE = ROOT / "tests" / "runtime" / "openmp_teams.c"
CPUS = sorted(os.sched_getaffinity(0))
COMPILER = shutil.which("gcc") or shutil.which("g++") or "gcc"
CLANG = shutil.which("clang") or shutil.which("clang-14")
NEEDED = [
    pytest.mark.skipif(len(CPUS) < 2, reason="needs two CPUs"),
]
# What the user's shell says about teams is not to reach the programs.
_NAMES = ("OMP_", "GOMP_", "KMP_", "OPENBLAS_", "GOTO_", "BLIS_")


def compiled(folder: Path, *options: str, compiler: str = COMPILER, source: Path = SOURCE) -> Path:
    """Return a program that uses OpenMP, compiled with options."""
    program = folder / source.stem
    words = [compiler, "-x", "c", "-fopenmp", str(source), "-x", "none", *options, "-ldl"]
    subprocess.run([*words, "-o", str(program)], check=True)
    return program


def variables(**more: str) -> dict[str, str]:
    """Return the environment, without what it says about teams."""
    return {k: v for k, v in os.environ.items() if not k.startswith(_NAMES)} | more


def needs_libomp() -> None:
    """Skip the test unless there are Clang and LLVM's runtime."""
    if CLANG is None:
        pytest.skip("needs clang")
    if not any(Path("/usr/lib").glob("llvm-*/lib/libomp.so")):
        pytest.skip("needs libomp-dev")


class Teams:
    """A running program that answers each line of its stdin with a number."""

    def __init__(
        self,
        *command: str | Path,
        options: tuple[str, ...] = (),
        cpus: int = len(CPUS),
        group: Group | None = None,
        is_alone: bool = False,
        **more: str,
    ) -> None:
        def begin() -> None:
            os.sched_setaffinity(0, CPUS[:cpus])
            if group is not None:
                group.add(os.getpid())

        self.process: Any = subprocess.Popen(
            [*([] if is_alone else [TFM, "run", *options, "--"]), *map(str, command)],
            env=variables(**more),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=begin,
        )

    def __enter__(self) -> Teams:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.communicate(timeout=DEADLINE)
        assert self.process.returncode == 0

    def answer(self, line: str | int = "") -> int:
        """Return what the program answers to a line."""
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def answers(self, line: str | int, times: int = 3) -> list[int]:
        """Return what it answers to the same line several times."""
        return [self.answer(line) for _ in range(times)]

    def confine(self, count: int) -> None:
        """Confine all threads of the program from outside, as a controller does."""
        for thread in os.listdir(f"/proc/{self.process.pid}/task"):
            with suppress(ProcessLookupError):  # It may end in between.
                os.sched_setaffinity(int(thread), CPUS[:count])
