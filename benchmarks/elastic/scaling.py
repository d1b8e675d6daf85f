# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The same training by one worker of two cores, two of one core each, and with servers."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

import psutil

from benchmarks.elastic.group import Group, Process, environment, group

_TURNS: Final = 6


@dataclass(frozen=True)
class Way:
    """How many processes train.

    Attributes:
        title: Title for people.
        workers: How many workers; 0 for Keras's plain fit().
        servers: How many servers own the slices.
    """

    title: str
    workers: int
    servers: int = 0


WAYS: Final = {
    "plain": Way("plain fit() with two cores", 0),
    "one": Way("one worker of two cores", 1),
    "two": Way("two workers of a core each", 2),
    "server": Way("two workers and a server", 2, 1),
    "servers": Way("two workers and two servers", 2, 2),
}


@dataclass(frozen=True)
class Comparison:
    """Ways that are compared.

    Attributes:
        workload: What is trained: a function of paced.py.
        steps: How many steps a turn has.
        pairs: What is compared with what.
    """

    workload: str
    steps: int
    pairs: Mapping[str, str]

    @property
    def ways(self) -> list[str]:
        """All that have to be started."""
        return [name for name in WAYS if name in {*self.pairs, *self.pairs.values()}]


COMPARISONS: Final = {
    "scaling": Comparison("cnn", 6, {"two": "one", "plain": "one"}),
    "servers": Comparison("dense", 20, {"server": "two", "servers": "two"}),
}

Turn = dict[str, tuple[float, float]]
"""Seconds and CPU seconds of a step, of both ways of a pair."""


class _Training:
    """A training that takes steps when it is told to."""

    def __init__(self, lead: Process, all_: list[Process], steps: int) -> None:
        self._lead, self._steps = lead, steps
        self._all = [psutil.Process(each.pid) for each in all_]

    def take(self) -> tuple[float, float]:
        """Take some steps; return the seconds of one, and its CPU time in all processes."""
        before = self._cpu()
        seconds = _tell(self._lead) / self._steps
        # The others compute their part of the next step before they wait for the lead.
        time.sleep(2 * seconds)
        return seconds, (self._cpu() - before) / (self._steps + 1)

    def _cpu(self) -> float:
        times = [each.cpu_times() for each in self._all]
        return sum(each.user + each.system for each in times)


def _tell(lead: Process) -> float:
    """Have a training take some steps; return how long they took."""
    assert lead.stdin is not None
    try:
        lead.stdin.write("\n")
        lead.stdin.flush()
    except BrokenPipeError:
        raise lead.problem() from None
    return _hear(lead)


def _hear(lead: Process) -> float:
    assert lead.stdout is not None
    line = lead.stdout.readline()
    if not line:
        raise lead.problem()
    return float(line)


def _start(way: Way, comparison: Comparison, held: ExitStack) -> _Training:
    steps = comparison.steps
    program = ["-m", "benchmarks.elastic.paced", comparison.workload, str(steps)]
    if not way.workers:
        said = {"TF_NUM_INTRAOP_THREADS": "2", "TF_NUM_INTEROP_THREADS": "2"}
        plain = Process([sys.executable, *program, "lines"], environment(**said))
        held.callback(plain.end)
        _hear(plain)
        return _Training(plain, [plain], steps)
    training = held.enter_context(group())
    lead = _join(training, way, [*program, "lines"])
    _hear(lead)
    for _ in range(way.servers):
        training.add_server()
    while len(training.workers) < way.workers:
        _join(training, way, program)
    # Others join between steps, and so there must be steps.
    while not training.is_settled:
        _tell(lead)
    return _Training(lead, training.processes, steps)


def _join(training: Group, way: Way, program: list[str]) -> Process:
    if way.workers == 1:
        return training.add_worker(program, threads=2)
    cores = sorted(os.sched_getaffinity(0))
    core = cores[len(training.workers) % len(cores)]
    return training.add_worker(program, prefix=["taskset", "-c", str(core)])


def measure(comparison: Comparison) -> dict[str, list[Turn]]:
    """Return turns of all pairs in new processes, each there and back."""
    found: dict[str, list[Turn]] = {name: [] for name in comparison.pairs}
    with ExitStack() as held:
        started = {name: _start(WAYS[name], comparison, held) for name in comparison.ways}
        for number in range(_TURNS):
            for pair in comparison.pairs.items():
                there = pair if number % 2 else pair[::-1]
                taken = [(name, started[name].take()) for name in (*there, *reversed(there))]
                found[pair[0]].append({name: _mean(name, taken) for name in pair})
    return found


def _mean(name: str, taken: list[tuple[str, tuple[float, float]]]) -> tuple[float, float]:
    walls, cpus = zip(*(each for who, each in taken if who == name), strict=True)
    return sum(walls) / len(walls), sum(cpus) / len(cpus)
