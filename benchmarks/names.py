# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What can be measured: names and bars, without a line that measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

WORKLOADS: Final = ("matmul", "conv", "elementwise", "tiny-ops", "keras-fit", "xla-step")


@dataclass(frozen=True)
class Process:
    """How one process under measurement is started.

    ``threads`` is what TensorFlow is told in TF_NUM_INTRAOP_THREADS and
    TF_NUM_INTEROP_THREADS, None for nothing; ``most`` is TF_MALLEABLE_MAX_THREADS.
    """

    name: str
    ours: bool
    threads: int | None = None
    most: int | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The variables that say so."""
        variables = {}
        if self.threads is not None:
            variables["TF_NUM_INTRAOP_THREADS"] = str(self.threads)
            variables["TF_NUM_INTEROP_THREADS"] = str(self.threads)
        if self.most is not None:
            variables["TF_MALLEABLE_MAX_THREADS"] = str(self.most)
        return variables


@dataclass(frozen=True)
class Pairing:
    """Our throughput against stock TensorFlow's, workload by workload.

    Each has a name of its own; several may be one measure.
    ``limit`` is set in our process before each measurement, None leaves it alone.
    A pairing without a ``bar`` is there for reference.
    """

    name: str
    measure: str
    label: str
    ours: Process
    stock: Process
    bar: float | None
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

CALL_BAR: Final = 100e-6
SETTLE_BAR: Final = 1e-3
SHARE_BAR: Final = 0.97


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
    generations=5,
    rounds=2,
    turns=6,
    slice_seconds=0.1,
    changes=1000,
    settles=60,
    trainings=6,
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


def select(names: list[str]) -> Selection:
    """Return what these names of measures and workloads ask for; none asks for all.

    Raises:
        ValueError: One of them names neither.
    """
    unknown = [name for name in names if name not in MEASURES + WORKLOADS]
    if unknown:
        choices = ", ".join(MEASURES + WORKLOADS)
        raise ValueError(f"nothing is called {unknown[0]!r}; choose from {choices}")
    return Selection(
        measures=tuple(m for m in MEASURES if m in names) or _measures_for(names),
        workloads=tuple(w for w in WORKLOADS if w in names) or WORKLOADS,
    )


def _measures_for(names: list[str]) -> tuple[str, ...]:
    # Workloads alone ask for the measures that have workloads.
    return tuple(m for m in MEASURES if not names or m not in ALONE)
