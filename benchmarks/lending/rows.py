# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the table, from samples. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.common.estimates import (
    Statistic,
    estimate,
    highest,
    median,
    paired_ratio,
    percentile_99,
)
from benchmarks.common.rows import Row, Target

NAMES = {"off": "by moving", "auto": "by priority"}


def rows(samples: Mapping[str, Any]) -> list[Row]:
    """Return what is known of each measure that has samples.

    Args:
        samples: By measure and way, the samples of each round: of naps, pairs of the milliseconds
            to the wake-up and of the computation; of outside, shares; of throughput, steps/s.
    """
    made = []
    for way, found in samples.get("naps", {}).items():
        made += _of_naps(way, found)
    for way, found in samples.get("outside", {}).items():
        target = Target(0.9, at_least=True) if way == "auto" else None
        label = f"share of its core, --cpu-weights {way}"
        made.append(Row("outside", label, "", estimate(found, median), target))
    if "throughput" in samples:
        on, off = ([taken[0] for taken in samples["throughput"][way]] for way in ("auto", "off"))
        ratio = paired_ratio(on, off)
        label = "steps/s of two trainings, of those with --cpu-weights off"
        target = Target(0.99, at_least=True)
        made.append(Row("throughput", label, "", ratio, target))
    return made


def _of_naps(way: str, found: Sequence[Sequence[Sequence[float]]]) -> list[Row]:
    woken = [[nap[0] for nap in naps] for naps in found]
    computed = [[nap[1] for nap in naps] for naps in found]
    is_new = way == "auto"

    def row(label: str, each: Sequence[Sequence[float]], statistic: Statistic, most: float) -> Row:
        target = Target(most) if is_new else None
        return Row("naps", f"{NAMES[way]}: {label}", "ms", estimate(each, statistic), target)

    return [
        row("wake-up, median", woken, median, 2),
        row("wake-up, 99th percentile", woken, percentile_99, 20),
        row("30 ms of CPU time, median", computed, median, 36),
        row("30 ms of CPU time, worst", computed, highest, 60),
    ]
