# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where queueing theory knows the answer, the simulator gives it."""

from __future__ import annotations

import math
import random
from statistics import fmean, stdev

import pytest

from tf_malleable.model import Machine, Shape
from tf_malleable.policies import registry
from tf_malleable.simulate.engine.curves import amdahl
from tf_malleable.simulate.engine.host import Delays
from tf_malleable.simulate.engine.simulation import Outcome, Scenario, simulate
from tf_malleable.simulate.engine.task import Task

AT_ONCE = Delays(0.0, 0.0, 0.0)
# Of Student's distribution with 19 degrees of freedom: of 1000 right results, one is outside.
BATCHES, MOST_ERRORS = 20, 3.883


def arrivals(count: int, load: float, mean: float, size, shape: Shape) -> list[Task]:
    """Return jobs that arrive at random, for one unit of capacity a second."""
    rng = random.Random(7)
    tasks, at = [], 0.0
    for number in range(count):
        at += rng.expovariate(load / mean)
        tasks.append(Task(f"job {number}", at, size(rng), shape=shape, steps=None))
    return tasks


def is_about(outcome: Outcome, expected: float) -> bool:
    """Return whether the mean turnaround is, by the method of batch means."""
    found = [job.total_seconds for job in outcome.history.jobs][len(outcome.history.jobs) // 10 :]
    size = len(found) // BATCHES
    means = [fmean(found[n * size : (n + 1) * size]) for n in range(BATCHES)]
    error = stdev(means) / math.sqrt(BATCHES)
    return abs(fmean(means) - expected) <= MOST_ERRORS * error and error < 0.1 * expected


def on(cores: int) -> Scenario:
    return Scenario((Machine.flat(cores),), delays=AT_ONCE)


@pytest.mark.slow
@pytest.mark.parametrize("load", [0.3, 0.6])
def test_one_queue_before_one_core_is_m_m_1(load):
    mean = 10.0
    tasks = arrivals(6000, load, mean, lambda rng: rng.expovariate(1 / mean), Shape(1, 1, 1))
    outcome = simulate(tasks, "fcfs-strict", on(1))
    assert is_about(outcome, mean / (1 - load))


@pytest.mark.slow
@pytest.mark.parametrize("size", ["exponential", "lognormal"])
def test_equal_shares_are_processor_sharing_whatever_the_sizes(size):
    # On so many cores shares are nearly equal; jobs scale perfectly.
    cores, mean, load = 64, 10.0, 0.5
    sizes = {
        "exponential": lambda rng: rng.expovariate(1 / mean) * cores,
        "lognormal": lambda rng: rng.lognormvariate(math.log(mean) - 0.5, 1.0) * cores,
    }
    tasks = arrivals(4000, load, mean, sizes[size], Shape(1, cores, cores))
    assert is_about(simulate(tasks, "equal", on(cores)), mean / (1 - load))


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_equal_jobs_end_together_under_equipartition(count):
    curve = amdahl(0.1)
    tasks = [Task(f"job {n}", 0.0, 80.0, curve, Shape(1, 8, 8)) for n in range(count)]
    jobs = simulate(tasks, "equal", on(8)).history.jobs
    assert [job.total_seconds for job in jobs] == pytest.approx(
        [80.0 / curve.speedup(8 // count)] * count
    )


@pytest.mark.slow
@pytest.mark.parametrize("policy", [name for name, _ in registry.available()])
def test_work_is_conserved(policy):
    # Perfect scaling: as much CPU time as work, however the cores move.
    rng = random.Random(3)
    tasks = [
        Task(
            f"job {n}",
            rng.uniform(0, 200),
            rng.uniform(5, 300),
            shape=Shape(1, rng.randint(1, 8), 8),
            priority=rng.randint(0, 3),
            starting=rng.choice([0.0, 5.0]),
            ending=rng.choice([0.0, 2.0]),
            busy=rng.choice([math.inf, 20.0]),
            idle=3.0,
        )
        for n in range(40)
    ]
    outcome = simulate(tasks, policy, Scenario((Machine.flat(8),)))
    assert len(outcome.history.jobs) == len(tasks)
    by_name = {task.name: task for task in tasks}
    for job in outcome.history.jobs:
        task = by_name[job.name]
        assert job.cpu_seconds == pytest.approx(task.starting + task.seconds + task.ending)
        assert job.waiting_seconds + job.service_seconds + job.paused_seconds == pytest.approx(
            job.ended - job.submitted
        )
    assert sum(job.core_seconds for job in outcome.history.jobs) <= 8 * (
        outcome.history.summary.makespan + 1e-6
    )
