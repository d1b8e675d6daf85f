# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Takes the measurements: what is asked of which worker, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from benchmarks.common import enlarging, turns
from benchmarks.common.command_line import Say
from benchmarks.common.enlarging import Enlarging
from benchmarks.common.worker.client import Process, Worker, workers
from benchmarks.single.names import (
    ALONE,
    CALLS,
    ENLARGE,
    OURS_FROM_1,
    Effort,
    Pairing,
    Selection,
)

SETTLE_LOADS = ("none", "intra-op", "inter-op")


@dataclass(frozen=True)
class PairSample:
    """One turn of one pairing with one workload."""

    generation: int
    pairing: str
    workload: str
    stock: turns.Slice
    ours: turns.Slice

    @property
    def ratio(self) -> float:
        """Our throughput against stock TensorFlow's."""
        return self.ours.rate / self.stock.rate


@dataclass(frozen=True)
class SettleSample:
    """All changes of one process under one load."""

    generation: int
    load: str
    seconds: list[float]
    overshoots: list[float]
    longest_tasks: list[float]


@dataclass(frozen=True)
class CallSample:
    """All calls of one process, idle or under load."""

    generation: int
    loaded: bool
    seconds: list[float]


@dataclass(frozen=True)
class TrainingSample:
    """What a training gained that was enlarged."""

    generation: int
    training: Enlarging


@dataclass
class Samples:
    """All that was measured."""

    pairs: list[PairSample] = field(default_factory=list)
    calls: list[CallSample] = field(default_factory=list)
    settles: list[SettleSample] = field(default_factory=list)
    trainings: list[TrainingSample] = field(default_factory=list)
    processes: dict[str, dict[str, Any]] = field(default_factory=dict)


def measure(selection: Selection, effort: Effort, say: Say) -> Samples:
    """Measure all that was selected; report progress to `say`."""
    samples = Samples()
    for generation in range(effort.generations):
        say(f"Processes {generation + 1} of {effort.generations}: starting and warming up")
        with workers(selection.processes) as started:
            for process, worker in started.items():
                samples.processes[process.name] = worker.wait_ready()
            _measure_generation(generation, selection, effort, started, samples, say)
    return samples


def _measure_generation(
    generation: int,
    selection: Selection,
    effort: Effort,
    started: Mapping[Process, Worker],
    samples: Samples,
    say: Say,
) -> None:
    if ENLARGE in selection.measures:
        # While the limits are still those it was started with.
        started[OURS_FROM_1].ask("prepare_training")
    for pairing in selection.pairings:
        if pairing.grows:
            # Threads that never ran have their memory to fetch yet, which stock
            # TensorFlow's did while warming up. What that costs, ENLARGE includes.
            started[pairing.ours].ask("limit", threads=pairing.limit)
            started[pairing.ours].ask("warm_up")
    for number in range(effort.rounds if selection.pairings else 0):
        say(f"  round {number + 1} of {effort.rounds}")
        for workload in selection.workloads:
            seen = []
            for pairing in selection.pairings:
                taken = _turns(generation, number, pairing, workload, effort, started)
                samples.pairs += taken
                seen.append(f"{pairing.name} {median(turn.ratio for turn in taken):.3f}")
            say(f"    {workload:12}" + "  ".join(seen))
        for worker in started.values():
            worker.ask("collect")
    if CALLS in selection.measures:
        _calls(generation, effort, started[ALONE[CALLS]], samples, say)
    if ENLARGE in selection.measures:
        _trainings(generation, effort, started[ALONE[ENLARGE]], samples, say)


def _turns(
    generation: int,
    number: int,
    pairing: Pairing,
    workload: str,
    effort: Effort,
    started: Mapping[Process, Worker],
) -> list[PairSample]:
    """Let both sides take many short turns, for this machine changes by the second."""
    ours, stock = started[pairing.ours], started[pairing.stock]
    if pairing.limit is not None:
        ours.ask("limit", threads=pairing.limit)
    samples = []
    for turn in range(effort.turns):
        taken: dict[bool, list[turns.Slice]] = {True: [], False: []}
        for is_ours in turns.order(generation + number + turn):
            answer = (ours if is_ours else stock).ask(
                "slice", workload=workload, seconds=effort.slice_seconds
            )
            taken[is_ours].append(turns.Slice(**answer))
        samples.append(
            PairSample(
                generation=generation,
                pairing=pairing.name,
                workload=workload,
                stock=turns.together(taken[False]),
                ours=turns.together(taken[True]),
            )
        )
    return samples


def _calls(generation: int, effort: Effort, worker: Worker, samples: Samples, say: Say) -> None:
    worker.ask("limit", threads=2)
    for loaded in (False, True):
        seconds = worker.ask("calls", changes=effort.changes, loaded=loaded)
        samples.calls.append(CallSample(generation, loaded, seconds))
        say(
            f"    set_threads {'under load' if loaded else 'idle'}: median"
            f" {sorted(seconds)[len(seconds) // 2] * 1e6:.1f} µs"
        )
    for load in SETTLE_LOADS:
        answer = worker.ask("settles", changes=effort.settles, load=load)
        lowered = [(start, held) for start, held in answer["lowered"]]
        tasks = [(begin, end) for begin, end in answer["tasks"]]
        sample = SettleSample(
            generation=generation,
            load=load,
            seconds=[held - start for start, held in lowered],
            overshoots=[turns.overshoot(change, tasks) for change in lowered],
            longest_tasks=[turns.longest_beside(change, tasks) for change in lowered],
        )
        samples.settles.append(sample)
        say(f"    settled, load {load}: at most {max(sample.seconds) * 1e3:.2f} ms")


def _trainings(generation: int, effort: Effort, worker: Worker, samples: Samples, say: Say) -> None:
    steps = effort.training_steps

    def train(first: int, then: int) -> list[float]:
        change_at = steps // 3 if then != first else 0
        taken: list[float] = worker.ask(
            "train", steps=steps, first=first, then=then, change_at=change_at
        )
        return taken

    training = enlarging.measure(train, effort.trainings)
    samples.trainings.append(TrainingSample(generation, training))
    worker.ask("collect")
    say(f"    enlarged training: {training.share:.1%} of the ideal gain")
