# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A quota of two CPUs where TensorFlow believes to have 64: stock, and with us."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.common import turns
from benchmarks.common.command_line import Say
from benchmarks.common.estimates import estimate
from benchmarks.common.rows import Row, Target
from benchmarks.common.worker.client import Process
from benchmarks.containers.place import Place

NAME: Final = "quota"
WORKLOADS: Final = ("matmul", "conv", "keras-fit")
_ROUNDS: Final = 12
_SLICE_SECONDS: Final = 0.4
_TARGET: Final = Target(0.95, at_least=True)

STOCK_2: Final = Process("stock, 2 threads", ours=False, threads=2)
STOCK_64: Final = Process("stock, 64 threads", ours=False, threads=64)
OURS_64: Final = Process("follows, 64 threads", ours=True, threads=64, most=64)
_ORDER: Final = (STOCK_2, OURS_64, STOCK_64)


@dataclass(frozen=True)
class Sample:
    """One turn of one workload: steps per second of each."""

    workload: str
    rates: dict[str, float]

    def ratio(self, process: Process) -> float:
        """Return the throughput against that of stock TensorFlow with 2 threads."""
        return self.rates[process.name] / self.rates[STOCK_2.name]


def measure(place: Place, say: Say) -> list[Sample]:
    """Let all three take turns, in containers with the same quota."""
    samples = []
    with ExitStack() as stack:
        workers = {}
        for process in _ORDER:
            begin = place.followed if process.ours else place.stock
            prefix = begin("-i", "--cpu-quota", "200000", environment=process.environment)
            workers[process] = stack.enter_context(place.worker(process, WORKLOADS, prefix))
            say(f"{process.name}: ready")
        for number in range(_ROUNDS):
            for workload in WORKLOADS:
                taken: dict[Process, list[turns.Slice]] = {process: [] for process in _ORDER}
                first = number % len(_ORDER)
                turn = _ORDER[first:] + _ORDER[:first]
                for process in turn + turn[::-1]:
                    answer = workers[process].ask(
                        "slice", workload=workload, seconds=_SLICE_SECONDS
                    )
                    taken[process].append(turns.Slice(**answer))
                rates = {p.name: turns.together(slices).rate for p, slices in taken.items()}
                samples.append(Sample(workload, rates))
    return samples


def rows(samples: list[Sample]) -> list[Row]:
    """Return the results as rows, each with its target."""
    found = []
    for workload in WORKLOADS:
        for process, target in ((OURS_64, _TARGET), (STOCK_64, None)):
            ratios = [s.ratio(process) for s in samples if s.workload == workload]
            label = f"{workload}, quota 2: {process.name} / {STOCK_2.name}"
            found.append(Row(NAME, label, "ratio", estimate([ratios]), target))
    return found


def as_json(samples: list[Sample]) -> list[dict[str, Any]]:
    """Return the samples for a file."""
    return [vars(sample) for sample in samples]
