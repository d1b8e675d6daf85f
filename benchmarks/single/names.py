# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What can be measured: names and targets, without a line that measures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from benchmarks.common.worker import WORKLOADS
from benchmarks.common.worker.client import Process


@dataclass(frozen=True)
class Pairing:
    """Our throughput against stock TensorFlow's, workload by workload.

    Each has a name of its own; several may be one measure.
    ``limit`` is set in our process before each measurement, None leaves it alone.
    A pairing without a ``target`` is there for reference.
    """

    name: str
    measure: str
    label: str
    ours: Process
    stock: Process
    target: float | None
    limit: int | None = None
    most_cpus: float | None = None

    @property
    def grows(self) -> bool:
        """True if the limit is above what our process was started and warmed up with."""
        if self.limit is None or self.ours.threads is None:
            return False
        return self.limit > self.ours.threads


STOCK: Final = Process("stock", ours=False)
STOCK_1: Final = Process("stock-1", ours=False, threads=1)
STOCK_2: Final = Process("stock-2", ours=False, threads=2)
STOCK_64: Final = Process("stock-64", ours=False, threads=64)
OURS: Final = Process("ours", ours=True)
OURS_FROM_2: Final = Process("ours-from-2", ours=True, threads=2)
OURS_FROM_1: Final = Process("ours-from-1", ours=True, threads=1)
OURS_OF_64: Final = Process("ours-of-64", ours=True, threads=2, most=64)

PAIRINGS: Final = (
    Pairing("overhead", "overhead", "limits untouched", OURS, STOCK, 0.99),
    Pairing(
        "fidelity-1", "fidelity", "limit 1, started with 2", OURS_FROM_2, STOCK_1, 0.97, 1, 1.05
    ),
    Pairing(
        "fidelity-2", "fidelity", "limit 2, started with 2", OURS_FROM_2, STOCK_2, 0.97, 2, 2.05
    ),
    Pairing("capacity", "capacity", "limit 2, capacity 64", OURS_OF_64, STOCK_2, 0.97, 2),
    Pairing(
        "stock-64", "capacity", "for reference: stock started with 64", STOCK_64, STOCK_2, None
    ),
    Pairing(
        "growth", "growth", "started with 1, warmed up, set to 2", OURS_FROM_1, STOCK_2, 0.97, 2
    ),
)

CALLS: Final = "calls"
ENLARGE: Final = "enlarge"
MEASURES: Final = (*dict.fromkeys(pairing.measure for pairing in PAIRINGS), CALLS, ENLARGE)

# Which processes the measures that are no pairings need.
ALONE: Final = {CALLS: OURS_FROM_2, ENLARGE: OURS_FROM_1}

CALL_TARGET: Final = 100e-6
SETTLE_TARGET: Final = 1e-3
SHARE_TARGET: Final = 0.97


@dataclass(frozen=True)
class Effort:
    """How long and how often to measure."""

    generations: int
    rounds: int
    turns: int
    slice_seconds: float
    changes: int
    settles: int
    trainings: int
    training_steps: int


FULL: Final = Effort(
    generations=3,
    rounds=2,
    turns=6,
    slice_seconds=0.1,
    changes=1000,
    settles=60,
    trainings=4,
    training_steps=36,
)
QUICK: Final = Effort(
    generations=2,
    rounds=1,
    turns=3,
    slice_seconds=0.1,
    changes=300,
    settles=15,
    trainings=3,
    training_steps=9,
)


@dataclass(frozen=True)
class Selection:
    """What to measure: measures, and the workloads of the pairings among them."""

    measures: tuple[str, ...]
    workloads: tuple[str, ...]

    @property
    def pairings(self) -> tuple[Pairing, ...]:
        """The pairings among the measures."""
        return tuple(p for p in PAIRINGS if p.measure in self.measures)

    @property
    def processes(self) -> dict[Process, tuple[str, ...]]:
        """The processes needed, each with the workloads it is to have."""
        needed: dict[Process, tuple[str, ...]] = {}
        for pairing in self.pairings:
            needed[pairing.stock] = needed[pairing.ours] = self.workloads
        for measure, process in ALONE.items():
            if measure in self.measures:
                needed.setdefault(process, ())
        return needed


def choices() -> dict[str, str]:
    """Return what --only takes, each with what it stands for."""
    titles: dict[str, list[str]] = {}
    for pairing in PAIRINGS:
        titles.setdefault(pairing.measure, []).append(pairing.label)
    measures = {measure: "; ".join(labels) for measure, labels in titles.items()}
    measures[CALLS] = "how long set_threads takes, and how long until the limit holds"
    measures[ENLARGE] = "a training enlarged from 1 thread to 2 at a third of its work"
    return {**measures, **dict.fromkeys(WORKLOADS, "a workload of the pairings")}


def select(names: Sequence[str]) -> Selection:
    """Return what these names of measures and workloads ask for; none asks for all.

    Raises:
        ValueError: None of the measures has the workloads.
    """
    measures = tuple(m for m in MEASURES if m in names) or _measures_for(names)
    workloads = tuple(w for w in WORKLOADS if w in names)
    if workloads and all(m in ALONE for m in measures):
        others = [m for m in MEASURES if m not in ALONE]
        raise ValueError(
            f"{', '.join(workloads)} can be chosen with {', '.join(others)},"
            f" not with {', '.join(measures)} alone"
        )
    return Selection(measures, workloads or WORKLOADS)


def _measures_for(names: Sequence[str]) -> tuple[str, ...]:
    # Workloads alone ask for the measures that have workloads.
    return tuple(m for m in MEASURES if not names or m not in ALONE)
