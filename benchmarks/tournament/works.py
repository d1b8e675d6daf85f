# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Simulates jobs that speed up by Amdahl's law, and of which something may be known before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tf_malleable.api.schema.history import JobRecord
from tf_malleable.model import Machine, Rate, Shape
from tf_malleable.scheduling.records.lessons import Knowledge, command_key, speed_key
from tf_malleable.simulate.engine.curves import amdahl
from tf_malleable.simulate.engine.simulation import Scenario, simulate
from tf_malleable.simulate.engine.task import Task

STEPS = 100.0
ANY_SHAPE = Shape(1, 1, 64)
# Of the only user.
_UID = 1000


@dataclass(frozen=True)
class Work:
    """A job to simulate.

    Attributes:
        id: Its name.
        arrival: When it is submitted.
        seconds: Its work, in seconds on one core.
        serial: The part of it that more cores do not shorten, 0 … 1.
        shape: As submitted.
        priority: As submitted.
        weight: As submitted.
        idle: Seconds without CPU after each `busy` seconds of work, 0 for none.
        busy: Seconds of work between two idle phases.
        reports: Whether it reports steps.
        known: Numbers of cores whose speed is known from earlier jobs.
        foreseen: Whether the same command ran before, on one core.
        told: Steps that it says it has, if that is not the truth, in parts of those.
        noise: Standard deviation of the logarithm of its speed with a number of cores.
        startup: Seconds before its work in which it uses one core and reports nothing, as a
            program that imports TensorFlow.
    """

    id: str
    arrival: float
    seconds: float
    serial: float = 0.1
    shape: Shape = ANY_SHAPE
    priority: int = 0
    weight: float = 1.0
    idle: float = 0.0
    busy: float = 1.0
    reports: bool = True
    known: tuple[int, ...] = ()
    foreseen: bool = False
    startup: float = 0.0
    told: float = 1.0
    noise: float = 0.0

    @property
    def task(self) -> Task:
        """The job, as the simulator wants it."""
        return Task(
            name=self.id,
            at=self.arrival,
            seconds=self.seconds,
            curve=amdahl(self.serial),
            shape=self.shape,
            priority=self.priority,
            weight=self.weight,
            steps=STEPS if self.reports else None,
            told=STEPS * self.told if self.told != 1.0 else None,
            starting=self.startup,
            busy=self.busy if self.idle else math.inf,
            idle=self.idle,
        )

    def alone(self, cores: int) -> float:
        """Return the seconds that it takes if it has the machine for itself."""
        most = min(cores, self.shape.max)
        waits = self.idle * self.seconds / self.busy
        return self.startup + self.seconds / amdahl(self.serial).speedup(most) + waits

    def rate(self, cores: int) -> float:
        """Return steps per second, phases without CPU included, as the controller measures."""
        idle = self.idle * self.seconds / self.busy
        return STEPS / (self.seconds / amdahl(self.serial).speedup(cores) + idle)


def run(policy: str, works: Sequence[Work], machine: Machine | int) -> dict[str, JobRecord]:
    """Return how each job fared, by its name."""
    knowledge = Knowledge()
    for work in works:
        rates = [Rate(cores, work.rate(cores)) for cores in work.known]
        knowledge.learn_rates(speed_key(_UID, work.id), rates)
        if work.known and work.reports:
            knowledge.learn_start(speed_key(_UID, work.id), work.startup)
        if work.foreseen:
            seconds = work.startup + work.seconds
            knowledge.learn_run_seconds(command_key(_UID, work.id, ()), seconds)
    if isinstance(machine, int):
        machine = Machine.flat(machine)
    scenario = Scenario((machine,), noise=max(work.noise for work in works))
    outcome = simulate([work.task for work in works], policy, scenario, knowledge=knowledge)
    found = {record.name: record for record in outcome.history.jobs}
    assert found.keys() == {work.id for work in works}
    return found


def makespan(found: dict[str, JobRecord]) -> float:
    """Return the seconds from the first arrival to the last end."""
    return max(each.ended for each in found.values()) - min(
        each.submitted for each in found.values()
    )


def mean_turnaround(found: dict[str, JobRecord]) -> float:
    """Return the mean of the seconds from arrival to end."""
    return sum(each.total_seconds for each in found.values()) / len(found)
