# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the benchmark of many cores has measured, and its rows. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.common import turns
from benchmarks.common.enlarging import Enlarging
from benchmarks.common.estimates import estimate
from benchmarks.common.rows import Row, Target
from benchmarks.common.worker import OF_CORES
from benchmarks.cores import names

# By generation of processes, the values of one row.
Values = dict[int, list[float]]


@dataclass(frozen=True)
class PairSample:
    """One turn of one measure with one workload."""

    generation: int
    measure: str
    workload: str
    stock: turns.Slice
    ours: turns.Slice

    @property
    def throughput(self) -> float:
        """Ours, relative to stock's."""
        return self.ours.rate / self.stock.rate

    @property
    def cpu(self) -> float:
        """CPU time of a step, relative to stock's."""
        return self.ours.cpu_per_step / self.stock.cpu_per_step


@dataclass(frozen=True)
class MemorySample:
    """The most memory that one process of each side had, in bytes, after its warm-up."""

    generation: int
    measure: str
    workload: str
    stock: int
    ours: int


@dataclass(frozen=True)
class ChangeSample:
    """Steps that were done while limits changed, and those of an ideal process."""

    generation: int
    workload: str
    steps: float
    ideal: float


@dataclass(frozen=True)
class EnlargeSample:
    """What a training gained that was enlarged."""

    generation: int
    workload: str
    training: Enlarging


@dataclass(frozen=True)
class IdleSample:
    """CPUs that a process uses while it does nothing."""

    generation: int
    ours: float
    stock: float


@dataclass
class Samples:
    """All that was measured."""

    pairs: list[PairSample] = field(default_factory=list)
    memory: list[MemorySample] = field(default_factory=list)
    changes: list[ChangeSample] = field(default_factory=list)
    enlarged: list[EnlargeSample] = field(default_factory=list)
    idle: list[IdleSample] = field(default_factory=list)
    processes: dict[str, dict[str, Any]] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Return them for a file."""
        return {
            name: [asdict(sample) for sample in getattr(self, name)]
            for name in ("pairs", "memory", "changes", "enlarged", "idle")
        }


def rows(samples: Samples) -> Iterator[Row]:
    """Yield the rows for all that was measured."""
    throughput = Target(names.THROUGHPUT_TARGET, at_least=True)
    for measure, most in names.CAPACITY_OF.items():
        label = f"throughput, limit 2 of {most}"
        yield from _pair_rows(samples, measure, label, throughput)
    for measure, most in names.CAPACITY_OF.items():
        label, target = f"CPU time per step, limit 2 of {most}", Target(names.CPU_TARGET)
        yield from _pair_rows(samples, measure, label, target, cpu=True)
    for measure, most in names.CAPACITY_OF.items():
        yield from _memory_rows(samples, measure, most)
    label = f"throughput, limit 2 after {max(names.CAPACITIES)}"
    yield from _pair_rows(samples, names.PARKED, label, throughput)
    idle = _collect((s.generation, s.ours) for s in samples.idle)
    if idle:
        found, target = estimate(list(idle.values())), Target(names.IDLE_TARGET)
        yield Row(names.PARKED, "idle", "CPUs", found, target)
    yield from _pair_rows(
        samples,
        names.TASKS,
        "throughput, limits untouched",
        Target(names.TASKS_TARGET, at_least=True),
    )
    yield from _pair_rows(samples, names.PLACEMENT, "throughput, pinned against free")
    for workload in names.CHANGING:
        values = _collect(
            (s.generation, s.steps / s.ideal) for s in samples.changes if s.workload == workload
        )
        target = Target(names.CHANGES_TARGET, at_least=True)
        yield from _row(names.CHANGES, "share of the ideal", target, workload, values)
    for workload in names.ENLARGED:
        values = _collect(
            (s.generation, s.training.share) for s in samples.enlarged if s.workload == workload
        )
        target = Target(names.ENLARGE_TARGET, at_least=True)
        yield from _row(names.ENLARGE, "share of the ideal gain", target, workload, values)


def _pair_rows(
    samples: Samples,
    measure: str,
    label: str,
    target: Target | None = None,
    *,
    cpu: bool = False,
) -> Iterator[Row]:
    for workload in (*OF_CORES, names.TASKS_WORKLOAD):
        values = _collect(
            (s.generation, s.cpu if cpu else s.throughput)
            for s in samples.pairs
            if (s.measure, s.workload) == (measure, workload)
        )
        yield from _row(measure, label, target, workload, values)


def _memory_rows(samples: Samples, measure: str, most: int) -> Iterator[Row]:
    label = f"memory, limit 2 of {most}, less 64 kB for each of these"
    for workload in OF_CORES:
        values = _collect(
            (s.generation, (s.ours - names.MEMORY_PER_THREAD * most) / s.stock)
            for s in samples.memory
            if (s.measure, s.workload) == (measure, workload)
        )
        yield from _row(measure, label, Target(names.MEMORY_TARGET), workload, values)


def _collect(values: Iterable[tuple[int, float]]) -> Values:
    found: Values = {}
    for generation, value in values:
        found.setdefault(generation, []).append(value)
    return found


def _row(
    measure: str, label: str, target: Target | None, workload: str, values: Values
) -> Iterator[Row]:
    """Yield the row, or none if nothing was measured for it."""
    if values:
        yield Row(measure, label, "ratio", estimate(list(values.values())), target, workload)
