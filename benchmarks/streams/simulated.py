# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Simulation of one stream under one policy."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean
from typing import Final

from benchmarks.streams.cells import Cell
from benchmarks.streams.ratios import Fared
from tf_malleable.api.schema.history import JobRecord
from tf_malleable.model import Machine
from tf_malleable.policies.policy import Policy
from tf_malleable.policies.queues.srpt import Constants, SrptPolicy
from tf_malleable.scheduling.records.metrics import BOUND_SECONDS
from tf_malleable.simulate.engine.foresight import Clairvoyance
from tf_malleable.simulate.engine.host import Delays
from tf_malleable.simulate.engine.simulation import Scenario, simulate
from tf_malleable.simulate.engine.task import Task

_POWERS: Final = (0.2, 0.4, 0.6, 1.0)


def simulated(policy: str | Policy, cell: Cell, seed: int) -> Fared:
    """Return how a stream of a cell fares under a policy.

    Raises:
        ValueError: There is no such policy.
    """
    tasks = cell.tasks(seed)
    scenario = Scenario((Machine.flat(cell.cores),), seed, cell.noise)
    return fared(tasks, simulate(tasks, policy, scenario).history.jobs, cell.cores)


def reference(cell: Cell, seed: int) -> Fared:
    """Return how a stream fares under the best policy that knows all: a heuristic, not a bound.

    It knows the work and the curve of each job at its arrival, and cores move at once. Of several
    powers of the prices, it is the one with the least mean turnaround on this very stream.
    """
    tasks = cell.tasks(seed)
    scenario = Scenario(
        (Machine.flat(cell.cores),),
        seed,
        cell.noise,
        Delays(0.0, 0.0, 0.0),
        Clairvoyance(True, True),
    )
    found = [
        fared(
            tasks, simulate(tasks, SrptPolicy(Constants(power)), scenario).history.jobs, cell.cores
        )
        for power in _POWERS
    ]
    return min(found, key=lambda each: each.turnaround)


def fared(tasks: Sequence[Task], jobs: Sequence[JobRecord], cores: int) -> Fared:
    """Return the measures of a stream whose jobs, in order of arrival, have ended."""
    slowdowns = sorted(
        job.total_seconds / max(BOUND_SECONDS, alone(task, cores))
        for task, job in zip(tasks, jobs, strict=True)
    )
    return Fared(
        fmean(job.total_seconds for job in jobs),
        max(job.ended for job in jobs) - min(job.submitted for job in jobs),
        slowdowns[math.ceil(0.99 * len(slowdowns)) - 1],
    )


def alone(task: Task, cores: int) -> float:
    """Return the seconds that a job takes with the machine for itself."""
    return task.starting + task.work / task.curve.speedup(min(cores, task.shape.max))


def bound(tasks: Sequence[Task], cores: int) -> float:
    """Return a mean turnaround, in seconds, that no policy can beat, whatever it knows.

    It is the larger of two: each job has the machine for itself; or the cores are one machine that
    is as fast as all of them, and serves the shortest remaining work first, which is optimal there
    (Schrage, "A proof of the optimality of the shortest remaining processing time discipline",
    1968). No job is faster than either allows.
    """
    return max(fmean(alone(task, cores) for task in tasks), _one_machine(tasks, cores))


def _one_machine(tasks: Sequence[Task], cores: int) -> float:
    left: list[list[float]] = []
    now = total = 0.0
    arrivals = [*((task.at, task.work / cores) for task in tasks), (math.inf, 0.0)]
    for at, seconds in arrivals:
        while left and now < at:
            shortest = min(left)
            step = min(shortest[0], at - now)
            now += step
            shortest[0] -= step
            if shortest[0] <= 1e-9:
                total += now - shortest[1]
                left.remove(shortest)
        now = max(now, at) if at < math.inf else now
        left.append([seconds, at])
    return total / len(tasks)
