# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Results of one benchmark: results.json, results.png and the table that is printed."""

from __future__ import annotations

import json
import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.common import figure, machine
from benchmarks.common.rows import Row, as_text
from benchmarks.common.runs import Run, Table, times_text


class Results:
    """Is written after each part, so that an interrupted benchmark leaves what it has."""

    def __init__(
        self,
        benchmark: str,
        out: Path,
        titles: Mapping[str, str] | None = None,
        in_children: bool = True,
        **conditions: object,
    ) -> None:
        """Note the conditions.

        Args:
            benchmark: Name of the benchmark; `python -m benchmarks.NAME` repeats it.
            out: Folder for the files.
            titles: Titles of workloads, by name.
            in_children: All is measured in child processes, and so the kernel can tell
                their CPU time from that of others.
            conditions: More conditions, by name.
        """
        self._out = out
        self._before, self._start = machine.CpuTimes.now(), time.monotonic()
        words = ["python", "-m", f"benchmarks.{benchmark}", *sys.argv[1:]]
        self._content: dict[str, Any] = {
            "benchmark": benchmark,
            "command": shlex.join(words),
            **machine.describe(),
            "titles": titles or {},
            **conditions,
        }
        self._rows: Sequence[Row] = ()
        self._runs: Sequence[Run] = ()
        self._in_children = in_children

    def write(self, rows: Sequence[Row], runs: Sequence[Run] = (), **measured: object) -> None:
        """Write the files anew.

        Args:
            rows: All rows so far.
            runs: All runs of workloads so far.
            measured: Samples, by name; those of earlier calls are kept.
        """
        self._rows, self._runs = rows, runs
        noise = machine.noise(self._before, machine.CpuTimes.now())
        if not self._in_children:
            del noise["others"]
        self._content |= measured | {
            "noise": noise,
            "seconds": time.monotonic() - self._start,
            "rows": [row.as_json() for row in rows],
            "runs": [run.as_json() for run in runs],
        }
        path = self._out / "results.json"
        path.write_text(json.dumps(self._content, indent=1) + "\n")
        figure.draw(rows, runs, self._content["titles"], self._out / "results.png")

    def tell(self) -> None:
        """Print for people what was written; nothing if nothing was."""
        if "rows" not in self._content:
            return
        if self._runs:
            print(f"\n{times_text(Table(tuple(self._runs)))}")
        print(f"\n{as_text(self._rows)}")
        noise = machine.noise_text(self._content["noise"])
        print(f"CPU time taken by {noise}. Results: {self._out}/results.json, results.png")
