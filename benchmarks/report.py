# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Turns samples into rows, and rows into a table and JSON. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import pairs
from measure import PairSample, Samples, SettleSample
from names import (
    CALL_BAR,
    CALLS,
    ENLARGE,
    PAIRINGS,
    SETTLE_BAR,
    SHARE_BAR,
    WORKLOADS,
    Pairing,
)

Unit = Literal["ratio", "CPUs", "seconds"]

LEGEND = """Ratios are our throughput / stock TensorFlow's: median over turns, pooled over
generations of processes. In brackets: 95 % confidence interval, bootstrapped over
generations and turns. ~ after a verdict: the interval has the bar inside."""


@dataclass(frozen=True)
class Row:
    """One line of the table: a value and what it should be."""

    measure: str
    label: str
    workload: str
    unit: Unit
    found: pairs.Estimate
    bar: pairs.Bar | None
    remark: str = ""

    @property
    def verdict(self) -> pairs.Verdict:
        """PASS, MISS, or - where there is no bar."""
        return pairs.verdict(self.found.value, self.bar)

    @property
    def is_sure(self) -> bool:
        """False if noise could turn the verdict."""
        return pairs.is_sure(self.found, self.bar)


def rows(samples: Samples) -> list[Row]:
    """Return the rows for all that was measured."""
    return [
        *(row for pairing in PAIRINGS for row in _pairing_rows(pairing, samples.pairs)),
        *_call_rows(samples),
        *_settle_rows(samples.settles),
        *_training_rows(samples),
    ]


def _by_generation(values: Iterable[tuple[int, float]]) -> list[list[float]]:
    groups: dict[int, list[float]] = {}
    for generation, value in values:
        groups.setdefault(generation, []).append(value)
    return list(groups.values())


def _pairing_rows(pairing: Pairing, taken: Sequence[PairSample]) -> Iterable[Row]:
    mine = [s for s in taken if s.pairing == pairing.name]
    for workload in WORKLOADS:
        of_it = [s for s in mine if s.workload == workload]
        if not of_it:
            continue
        cost = pairs.estimate([[s.ours.cpu_per_step / s.stock.cpu_per_step for s in of_it]])
        yield Row(
            pairing.measure,
            pairing.label,
            workload,
            "ratio",
            pairs.estimate(_by_generation((s.generation, s.ratio) for s in of_it)),
            None if pairing.bar is None else pairs.Bar(pairing.bar, at_least=True),
            f"CPU time per step x {cost.value:.3f}",
        )
    for workload in WORKLOADS:
        of_it = [s for s in mine if s.workload == workload]
        if pairing.most_cpus is None or not of_it:
            continue
        stock = pairs.estimate(_by_generation((s.generation, s.stock.cpus) for s in of_it))
        yield Row(
            pairing.measure,
            f"CPUs used, limit {pairing.limit}",
            workload,
            "CPUs",
            pairs.estimate(_by_generation((s.generation, s.ours.cpus) for s in of_it)),
            pairs.Bar(pairing.most_cpus, at_least=False),
            f"stock {stock.value:.2f}; ours at most {max(s.ours.cpus for s in of_it):.2f}",
        )


def _call_rows(samples: Samples) -> Iterable[Row]:
    for loaded in (False, True):
        groups = [s.seconds for s in samples.calls if s.loaded == loaded]
        if not groups:
            continue
        middle, most = (pairs.estimate(groups, f).value for f in (pairs.median, pairs.highest))
        yield Row(
            CALLS,
            f"set_threads, {'under load' if loaded else 'idle'}, p99",
            "",
            "seconds",
            pairs.estimate(groups, pairs.percentile_99),
            pairs.Bar(CALL_BAR, at_least=False),
            f"median {seconds(middle)}, max {seconds(most)}",
        )


def _settle_rows(taken: Sequence[SettleSample]) -> Iterable[Row]:
    labels = {
        "none": "settled when idle, max",
        "intra-op": "settled - longest task, intra-op, max",
        "inter-op": "settled - longest task, inter-op, max",
    }
    for load, label in labels.items():
        of_it = [s for s in taken if s.load == load]
        if not of_it:
            continue
        groups = [s.overshoots for s in of_it]
        middle = pairs.estimate(groups, pairs.median).value
        p99 = pairs.estimate(groups, pairs.percentile_99).value
        remark = f"median {seconds(middle)}, p99 {seconds(p99)}"
        if load != "none":
            settle = pairs.estimate([s.seconds for s in of_it], pairs.highest).value
            task = pairs.estimate([s.longest_tasks for s in of_it], pairs.median).value
            remark += f"; settled in at most {seconds(settle)}, task {seconds(task)}"
        yield Row(
            CALLS,
            label,
            "",
            "seconds",
            pairs.estimate(groups, pairs.highest),
            pairs.Bar(SETTLE_BAR, at_least=False),
            remark,
        )


def _training_rows(samples: Samples) -> Iterable[Row]:
    taken = samples.trainings
    if not taken:
        return
    gains = [s.at_one / s.at_two for s in taken]
    middle = pairs.estimate([gains]).value
    yield Row(
        ENLARGE,
        "share of the ideal gain",
        "keras-fit",
        "ratio",
        pairs.estimate(_by_generation((s.generation, s.share) for s in taken)),
        pairs.Bar(SHARE_BAR, at_least=True),
        f"2 threads are {middle:.2f} times as fast as 1",
    )


def seconds(value: float) -> str:
    """Return a duration for people."""
    return f"{value * 1e6:.1f} µs" if abs(value) < 1e-3 else f"{value * 1e3:.2f} ms"


def _shown(value: float, unit: Unit) -> str:
    if unit == "seconds":
        return seconds(value)
    return f"{value:.3f}" if unit == "ratio" else f"{value:.2f}"


def table(found: Sequence[Row]) -> str:
    """Return the rows as text."""
    lines = [("measure", "", "workload", "value", "95 % CI", "bar", "", "")]
    for row in found:
        sign = "" if row.bar is None else "≥" if row.bar.at_least else "≤"
        lines.append(
            (
                row.measure,
                row.label,
                row.workload,
                _shown(row.found.value, row.unit),
                f"[{_shown(row.found.low, row.unit)}, {_shown(row.found.high, row.unit)}]",
                "" if row.bar is None else f"{sign} {_shown(row.bar.value, row.unit)}",
                row.verdict + ("" if row.is_sure else "~"),
                row.remark,
            )
        )
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    text = "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
        for line in lines
    )
    passed = sum(row.verdict == "PASS" for row in found)
    judged = sum(row.verdict != "-" for row in found)
    return f"{text}\n\n{passed} of {judged} rows pass.\n{LEGEND}"


def as_json(found: Sequence[Row], samples: Samples, context: dict[str, Any]) -> dict[str, Any]:
    """Return everything, raw samples included, as JSON will hold it."""
    return {
        **context,
        "processes": samples.processes,
        "rows": [{**asdict(row), "verdict": row.verdict, "sure": row.is_sure} for row in found],
        "samples": {
            "pairs": [{**asdict(s), "ratio": s.ratio} for s in samples.pairs],
            "calls": [asdict(s) for s in samples.calls],
            "settles": [asdict(s) for s in samples.settles],
            "trainings": [{**asdict(s), "share": s.share} for s in samples.trainings],
        },
    }
