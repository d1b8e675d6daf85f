# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""File of finished simulations, a line each, so that an interrupted campaign goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from benchmarks.common.command_line import BenchmarkError
from benchmarks.streams.ratios import Fared


class Key(NamedTuple):
    """A simulation: cell, policy and seed."""

    cell: str
    policy: str
    seed: int


class RunsFile:
    """Finished simulations of one commit."""

    def __init__(self, path: Path, commit: str | None) -> None:
        """Read what the file has, if it exists.

        Raises:
            BenchmarkError: It is of another commit, or no such file.
        """
        self._path = path
        self.found: dict[Key, Fared] = {}
        if path.exists():
            self._read(commit)
        else:
            path.write_text(json.dumps({"commit": commit}) + "\n")

    def _read(self, commit: str | None) -> None:
        whole, newline, rest = self._path.read_text().rpartition("\n")
        first, *lines = whole.splitlines() or [""]
        try:
            of = json.loads(first)["commit"]
            for line in lines:
                cell, policy, seed, *measures = json.loads(line)
                self.found[Key(cell, policy, seed)] = Fared(*measures)
        except (ValueError, KeyError, TypeError):
            raise BenchmarkError(f"{self._path} holds no simulations of streams") from None
        if of != commit:
            raise BenchmarkError(
                f"the simulations in {self._path} are of another commit: choose another --out"
            )
        if rest:
            # The last line was cut off, and the next one is not to go on from there.
            self._path.write_text(whole + newline)

    def add(self, key: Key, fared: Fared) -> None:
        """Add a simulation."""
        self.found[key] = fared
        line = json.dumps([*key, fared.turnaround, fared.makespan, fared.slowdown])
        with self._path.open("a") as file:
            file.write(f"{line}\n")
