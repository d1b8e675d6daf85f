# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs the benchmark of many cores."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from benchmarks.common import enlarging, turns
from benchmarks.common.command_line import Say, sayer
from benchmarks.common.results import Results
from benchmarks.common.worker import OF_CORES
from benchmarks.common.worker.client import Process, Worker, workers
from benchmarks.cores import names
from benchmarks.cores.rows import (
    ChangeSample,
    EnlargeSample,
    IdleSample,
    MemorySample,
    PairSample,
    Samples,
    rows,
)


def run(chosen: Sequence[str], rounds: int, out: Path) -> None:
    """Measure all that was chosen, or everything; write after each part, and print."""
    measures = [name for name in names.MEASURES if name in chosen] or list(names.MEASURES)
    workloads = [name for name in OF_CORES if name in chosen] or list(OF_CORES)
    say, samples = sayer(), Samples()
    results = Results("cores", out, rounds=rounds)
    for generation in range(rounds):
        say(f"Round {generation + 1} of {rounds}")
        for measure in measures:
            if measure in names.OURS:
                # One workload at a time: the memory is that of one.
                for workload in workloads:
                    _capacity(generation, measure, workload, samples, say)
            elif measure == names.CHANGES:
                _changes(generation, samples, say)
            elif measure == names.ENLARGE:
                _enlarge(generation, samples, say)
            elif measure == names.PARKED:
                _parked(generation, samples, say)
            elif measure == names.PLACEMENT:
                _placement(generation, samples, say)
            else:
                _tasks(generation, samples, say)
            results.write(
                list(rows(samples)), processes=samples.processes, samples=samples.as_json()
            )
    results.tell()


@contextmanager
def _started(
    ours: Process, stock: Process, workloads: tuple[str, ...], samples: Samples
) -> Iterator[tuple[Worker, Worker]]:
    with workers({ours: workloads, stock: workloads}) as started:
        for process, worker in started.items():
            samples.processes[process.name] = worker.wait_ready()
        yield started[ours], started[stock]


def _capacity(generation: int, measure: str, workload: str, samples: Samples, say: Say) -> None:
    with _started(names.OURS[measure], names.STOCK_2, (workload,), samples) as (ours, stock):
        memory = MemorySample(
            generation, measure, workload, stock.ask("memory"), ours.ask("memory")
        )
        samples.memory.append(memory)
        ratio = _pairs(generation, measure, workload, ours, stock, samples)
        say(
            f"  {measure:12} {workload:12} {ratio:.3f}, memory"
            f" {memory.ours / memory.stock:.2f} of {memory.stock / 2**20:.0f} MiB"
        )


def _tasks(generation: int, samples: Samples, say: Say) -> None:
    workload = names.TASKS_WORKLOAD
    with _started(names.OURS_UNTOUCHED, names.STOCK_2, (workload,), samples) as (ours, stock):
        ratio = _pairs(generation, names.TASKS, workload, ours, stock, samples)
        say(f"  {names.TASKS:12} {ratio:.3f}")


def _pairs(
    generation: int, measure: str, workload: str, ours: Worker, stock: Worker, samples: Samples
) -> float:
    """Let both sides take many short turns; return the ratio of the last."""
    for turn in range(names.TURNS):
        taken: dict[bool, list[turns.Slice]] = {True: [], False: []}
        for is_ours in turns.order(generation + turn):
            answer = (ours if is_ours else stock).ask(
                "slice", workload=workload, seconds=names.SLICE_SECONDS
            )
            taken[is_ours].append(turns.Slice(**answer))
        sample = PairSample(
            generation,
            measure,
            workload,
            turns.together(taken[False]),
            turns.together(taken[True]),
        )
        samples.pairs.append(sample)
    return sample.throughput


def _changes(generation: int, samples: Samples, say: Say) -> None:
    process = names.OURS[f"capacity-{names.CAPACITIES[0]}"]
    with workers({process: names.CHANGING}) as started:
        worker = started[process]
        samples.processes[process.name] = worker.wait_ready()
        for workload in names.CHANGING:
            answer = worker.ask("changing", workload=workload, seconds=names.CHANGING_SECONDS)
            sample = ChangeSample(generation, workload, answer["steps"], answer["ideal"])
            samples.changes.append(sample)
            say(f"  {names.CHANGES:12} {workload:12} {sample.steps / sample.ideal:.3f}")


def _enlarge(generation: int, samples: Samples, say: Say) -> None:
    process = names.OURS[f"capacity-{names.CAPACITIES[0]}"]
    with workers({process: names.ENLARGED}) as started:
        worker = started[process]
        samples.processes[process.name] = worker.wait_ready()

        def train(workload: str, first: int, then: int) -> list[float]:
            taken: list[float] = worker.ask(
                "durations",
                workload=workload,
                steps=names.ENLARGED_STEPS,
                first=first,
                then=then,
            )
            return taken

        for workload in names.ENLARGED:
            training = enlarging.measure(partial(train, workload), names.ENLARGED_ROUNDS)
            samples.enlarged.append(EnlargeSample(generation, workload, training))
            say(f"  {names.ENLARGE:12} {workload:12} {training.share:.1%} of the ideal gain")


def _parked(generation: int, samples: Samples, say: Say) -> None:
    """Measure a process that had all its threads, and then parks all but two."""
    most = max(names.CAPACITIES)
    process = names.OURS[f"capacity-{most}"]
    with _started(process, names.STOCK_2, names.PARKED_WORKLOADS, samples) as (ours, stock):
        ours.ask("limit", threads=most)
        ours.ask("slice", workload=names.PARKED_WORKLOADS[0], seconds=names.SLICE_SECONDS)
        ours.ask("limit", threads=2)
        for workload in names.PARKED_WORKLOADS:
            ratio = _pairs(generation, names.PARKED, workload, ours, stock, samples)
            say(f"  {names.PARKED:12} {workload:12} {ratio:.3f}")
        seconds = names.IDLE_SECONDS
        idle = [worker.ask("idle", seconds=seconds) / seconds for worker in (ours, stock)]
        samples.idle.append(IdleSample(generation, ours=idle[0], stock=idle[1]))
        say(f"  {names.PARKED:12} idle: {idle[0]:.4f} CPUs, stock {idle[1]:.4f}")


def _placement(generation: int, samples: Samples, say: Say) -> None:
    """Let one process take turns with its workers pinned, as ours, and free, as stock."""
    with workers({names.OURS_UNTOUCHED: names.PLACED}) as started:
        worker = started[names.OURS_UNTOUCHED]
        samples.processes[names.OURS_UNTOUCHED.name] = worker.wait_ready()
        for workload in names.PLACED:
            for turn in range(names.TURNS):
                taken: dict[bool, list[turns.Slice]] = {True: [], False: []}
                for apart in turns.order(generation + turn):
                    worker.ask("pin", apart=apart)
                    answer = worker.ask("slice", workload=workload, seconds=names.SLICE_SECONDS)
                    taken[apart].append(turns.Slice(**answer))
                free, pinned = (turns.together(taken[apart]) for apart in (False, True))
                sample = PairSample(generation, names.PLACEMENT, workload, free, pinned)
                samples.pairs.append(sample)
            say(f"  {names.PLACEMENT:12} {workload:12} {sample.throughput:.3f}")
