# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A quota of two CPUs where TensorFlow believes to have 64: stock, and with us."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import pairs
from names import Process

from container.place import Place
from container.verdicts import Verdict

NAME: Final = "quota"
WORKLOADS: Final = ("matmul", "conv", "keras-fit")
_ROUNDS: Final = 12
_SLICE_SECONDS: Final = 0.4
_BAR: Final = pairs.Bar(0.95, at_least=True)

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


def measure(place: Place, say: Callable[[str], None]) -> list[Sample]:
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
                taken: dict[Process, list[pairs.Slice]] = {process: [] for process in _ORDER}
                first = number % len(_ORDER)
                turn = _ORDER[first:] + _ORDER[:first]
                for process in turn + turn[::-1]:
                    answer = workers[process].ask(
                        "slice", workload=workload, seconds=_SLICE_SECONDS
                    )
                    taken[process].append(pairs.Slice(**answer))
                rates = {p.name: pairs.together(slices).rate for p, slices in taken.items()}
                samples.append(Sample(workload, rates))
    return samples


def verdicts(samples: list[Sample]) -> list[Verdict]:
    """Return how the ratios are against the bar."""
    found = []
    for workload in WORKLOADS:
        for process, bar in ((OURS_64, _BAR), (STOCK_64, None)):
            ratios = [s.ratio(process) for s in samples if s.workload == workload]
            text = f"{workload}, quota 2: {process.name} / {STOCK_2.name}"
            found.append(Verdict(NAME, text, pairs.estimate([ratios]), "ratio", bar))
    return found


def as_json(samples: list[Sample]) -> list[dict[str, Any]]:
    """Return the samples for a file."""
    return [vars(sample) for sample in samples]
