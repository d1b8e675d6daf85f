# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How the controller's times compare with their targets. Pure."""

from __future__ import annotations

from collections.abc import Iterable

from benchmarks.common.configurations import (
    BASELINES,
    IN_SEQUENCE,
    STATIC,
    TOGETHER,
    controlled,
)
from benchmarks.common.estimates import paired_ratio
from benchmarks.common.rows import Row, Target
from benchmarks.common.runs import Metric, Table


def rows(table: Table, default: str) -> list[Row]:
    """Return ratios of times, each with its target, as far as measured.

    Args:
        table: All runs.
        default: The name of the default policy.
    """
    found = []
    for workload in table.workloads():
        measured = set(table.configurations(workload))
        for ours, other, metric, most in _targets(workload, default, table):
            if ours in measured and other in measured:
                ratio = paired_ratio(
                    table.values(workload, ours, metric), table.values(workload, other, metric)
                )
                label = f"{ours} / {other}, {metric}"
                found.append(Row(workload, label, "ratio", ratio, Target(most)))
    return found


def _targets(workload: str, default: str, table: Table) -> Iterable[tuple[str, str, Metric, float]]:
    """Yield each target: whose time, divided by whose, which time, at most what."""
    measured = table.configurations(workload)
    if {each.name for each in BASELINES} <= set(measured):
        yield from _to_the_best(workload, default, table)
    if workload == "a":
        yield default, TOGETHER.name, "makespan", 0.90
        yield default, IN_SEQUENCE.name, "makespan", 0.90
    if workload == "b":
        for other in measured:
            if other != default:
                yield default, other, "mean turnaround", 1.0
    if workload == "c":
        yield default, STATIC.name, "makespan", 0.85
    if workload == "d":
        yield "efficient", "equal", "makespan", 1.0
    if workload == "e":
        for name in measured:
            if name.startswith("lend+"):
                yield name, name.removeprefix("lend+"), "makespan", 1.0


def _to_the_best(
    workload: str, default: str, table: Table
) -> Iterable[tuple[str, str, Metric, float]]:
    """Yield the targets relative to the best of what there is without a controller."""
    stock = [each.name for each in BASELINES]
    best = _best(stock, workload, table, "makespan")
    if workload not in ("f", "g"):
        yield default, best, "makespan", 1.02
        return
    soonest = _best(stock, workload, table, "mean turnaround")
    for ours in (default, controlled(default, again=True).name):
        yield ours, best, "makespan", 0.95
        yield ours, soonest, "mean turnaround", 0.95


def _best(names: Iterable[str], workload: str, table: Table, metric: Metric) -> str:
    return min(names, key=lambda name: table.middle(workload, name, metric))
