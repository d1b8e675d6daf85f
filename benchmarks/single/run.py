# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs the benchmark of one process."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from benchmarks.common.command_line import sayer
from benchmarks.common.results import Results
from benchmarks.single.measure import measure
from benchmarks.single.names import Effort, Selection
from benchmarks.single.rows import as_json, rows


def run(selection: Selection, effort: Effort, out: Path) -> None:
    """Measure all that was selected, write and print it."""
    results = Results("single", out, effort=asdict(effort))
    samples = measure(selection, effort, sayer())
    results.write(rows(samples), processes=samples.processes, samples=as_json(samples))
    results.tell()
