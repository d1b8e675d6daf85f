# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Turns samples into rows. Pure.

Ratios are our throughput / stock TensorFlow's: medians over turns, pooled over generations
of processes, with intervals bootstrapped over generations and turns.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any

from benchmarks.common.estimates import estimate, highest, median, percentile_99
from benchmarks.common.rows import Row, Target, shown
from benchmarks.common.worker import WORKLOADS
from benchmarks.single.measure import PairSample, Samples, SettleSample
from benchmarks.single.names import (
    CALL_TARGET,
    CALLS,
    ENLARGE,
    PAIRINGS,
    SETTLE_TARGET,
    SHARE_TARGET,
    Pairing,
)


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
        cost = estimate([[s.ours.cpu_per_step / s.stock.cpu_per_step for s in of_it]])
        yield Row(
            pairing.measure,
            pairing.label,
            "ratio",
            estimate(_by_generation((s.generation, s.ratio) for s in of_it)),
            None if pairing.target is None else Target(pairing.target, at_least=True),
            workload,
            f"CPU time per step x {cost.value:.3f}",
        )
    for workload in WORKLOADS:
        of_it = [s for s in mine if s.workload == workload]
        if pairing.most_cpus is None or not of_it:
            continue
        stock = estimate(_by_generation((s.generation, s.stock.cpus) for s in of_it))
        yield Row(
            pairing.measure,
            f"CPUs used, limit {pairing.limit}",
            "CPUs",
            estimate(_by_generation((s.generation, s.ours.cpus) for s in of_it)),
            Target(pairing.most_cpus, at_least=False),
            workload,
            f"stock {stock.value:.2f}; ours at most {max(s.ours.cpus for s in of_it):.2f}",
        )


def _call_rows(samples: Samples) -> Iterable[Row]:
    for loaded in (False, True):
        groups = [s.seconds for s in samples.calls if s.loaded == loaded]
        if not groups:
            continue
        middle, most = (estimate(groups, f).value for f in (median, highest))
        yield Row(
            CALLS,
            f"set_threads, {'under load' if loaded else 'idle'}, p99",
            "seconds",
            estimate(groups, percentile_99),
            Target(CALL_TARGET, at_least=False),
            remark=f"median {_seconds(middle)}, max {_seconds(most)}",
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
        middle = estimate(groups, median).value
        p99 = estimate(groups, percentile_99).value
        remark = f"median {_seconds(middle)}, p99 {_seconds(p99)}"
        if load != "none":
            settle = estimate([s.seconds for s in of_it], highest).value
            task = estimate([s.longest_tasks for s in of_it], median).value
            remark += f"; settled in at most {_seconds(settle)}, task {_seconds(task)}"
        yield Row(
            CALLS,
            label,
            "seconds",
            estimate(groups, highest),
            Target(SETTLE_TARGET, at_least=False),
            remark=remark,
        )


def _training_rows(samples: Samples) -> Iterable[Row]:
    taken = samples.trainings
    if not taken:
        return
    gains = [s.training.at_one / s.training.at_two for s in taken]
    middle = estimate([gains]).value
    yield Row(
        ENLARGE,
        "share of the ideal gain",
        "ratio",
        estimate(_by_generation((s.generation, s.training.share) for s in taken)),
        Target(SHARE_TARGET, at_least=True),
        "keras-fit",
        f"2 threads are {middle:.2f} times as fast as 1",
    )


def _seconds(value: float) -> str:
    return shown(value, "seconds")


def as_json(samples: Samples) -> dict[str, Any]:
    """Return the samples for a file."""
    return {
        "pairs": [{**asdict(s), "ratio": s.ratio} for s in samples.pairs],
        "calls": [asdict(s) for s in samples.calls],
        "settles": [asdict(s) for s in samples.settles],
        "trainings": [{**asdict(s), "share": s.training.share} for s in samples.trainings],
    }
