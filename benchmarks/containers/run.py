# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs the benchmark of containers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from benchmarks.common import pace
from benchmarks.common.command_line import sayer
from benchmarks.common.results import Results
from benchmarks.common.rows import Row
from benchmarks.common.runs import Run
from benchmarks.containers import arrivals, enlarge, quota, resize
from benchmarks.containers.place import place


def run(names: Sequence[str], rounds: int, out: Path) -> None:
    """Measure, write after each part, and print.

    Args:
        names: Names of what is measured.
        rounds: Number of rounds of arrivals.
        out: Folder for results.
    """
    say = sayer()
    rows: list[Row] = []
    runs: list[Run] = []
    with place() as there:
        docker = there.client.version()["Version"]
        results = Results("containers", out, in_children=False, docker=docker)
        if quota.NAME in names:
            turns = quota.measure(there, say)
            rows += quota.rows(turns)
            results.write(rows, quota=quota.as_json(turns))
        if resize.NAME in names:
            resized = resize.measure(there, say)
            rows += resized.rows()
            results.write(rows, resize=resized.as_json())
        if enlarge.NAME in names:
            enlarged = enlarge.measure(there, say)
            rows += enlarge.rows(enlarged)
            results.write(rows, enlarge=enlarge.as_json(enlarged))
        if arrivals.NAME in names:
            speed = pace.measure(say)
            runs = arrivals.measure(there, rounds, speed, say)
            rows += arrivals.rows(runs)
            results.write(rows, runs, pace=speed.factors)
    results.tell()
