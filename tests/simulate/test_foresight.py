# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What policies see of simulated jobs with foresight, and without."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tf_malleable.model import Allocation, Job, Machine, Shape
from tf_malleable.policies.queues.remaining_work import remaining_work
from tf_malleable.policies.queues.speedup import fit
from tf_malleable.policies.registry import create
from tf_malleable.simulate.engine.curves import amdahl
from tf_malleable.simulate.engine.foresight import Clairvoyance
from tf_malleable.simulate.engine.simulation import Scenario, simulate
from tf_malleable.simulate.engine.task import Task

CURVE = amdahl(0.2)
TASKS = [
    Task("first", 0.0, 60.0, CURVE, Shape(1, 4, 4), starting=5.0),
    Task("second", 20.0, 30.0, CURVE, Shape(1, 4, 4), steps=None),
]


class Spy:
    """Shares cores like another policy, and keeps what it has seen."""

    def __init__(self) -> None:
        self._policy = create("equal")
        self.seen: list[tuple[float, dict[str, Job]]] = []

    def allocate(self, jobs: Sequence[Job], machine: Machine, now: float) -> Allocation:
        self.seen.append((now, {job.id: job for job in jobs}))
        return self._policy.allocate(jobs, machine, now)


def seen(
    foresight: Clairvoyance, tasks: Sequence[Task] = TASKS
) -> list[tuple[float, dict[str, Job]]]:
    spy = Spy()
    simulate(tasks, spy, Scenario((Machine.flat(4),), foresight=foresight))
    return spy.seen


def test_without_foresight_nothing_is_known_of_a_job_that_arrives():
    _, jobs = seen(Clairvoyance())[0]
    assert (jobs["1"].rates, jobs["1"].steps_done) == ((), None)


def test_known_sizes_are_the_work_that_is_left():
    found = seen(Clairvoyance(sizes=True))
    assert remaining_work(found[0][1]["1"]) == pytest.approx(60.0)
    # Alone on four cores, after five seconds of start and the delay of its first grant.
    (jobs,) = (jobs for now, jobs in found if now == 20.0)
    worked = 20.0 - 5.0 - 0.003
    left = 60.0 - worked * CURVE.speedup(4)
    steps = jobs["1"]
    assert steps.steps_total is not None
    assert steps.steps_done is not None
    assert 60.0 * (1 - steps.steps_done / steps.steps_total) == pytest.approx(left)
    # It reports nothing, and is known nevertheless.
    assert remaining_work(jobs["2"]) == pytest.approx(30.0)


def test_known_curves_are_those_of_the_tasks():
    _, jobs = seen(Clairvoyance(curves=True))[0]
    assert jobs["1"].steps_done is None
    curve = fit(jobs["1"].rates)
    for cores in (1, 2, 3, 4):
        assert curve.speedup(cores) == pytest.approx(CURVE.speedup(cores), rel=1e-3)


def test_the_work_of_a_job_that_fails_is_what_it_does_until_then():
    tasks = [Task("fails", 0.0, 60.0, CURVE, Shape(1, 4, 4), fails_at=0.5)]
    _, jobs = seen(Clairvoyance(sizes=True, curves=True), tasks)[0]
    assert remaining_work(jobs["1"]) == pytest.approx(30.0, rel=1e-3)
