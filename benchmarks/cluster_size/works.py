# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trainings to simulate, drawn at random, and what a change costs them."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Final

from tf_malleable.cluster.planning.cluster_job import WorkerBounds
from tf_malleable.policies.queues.speedup import Curve

# For how long a rescale stops a training: the longest pause of Keras trainings with 25 million
# parameters, see docs/benchmarks/large-clusters.md.
PAUSE_SECONDS: Final = 1.02
# How fast twice as many workers with as many CPUs are in relation, from the same page; measured
# with one and two.
DOUBLING: Final = 0.976
# From a pod's creation until its worker computes; an assumption.
START_SECONDS: Final = 10.0


@dataclass(frozen=True)
class Work:
    """A training.

    Attributes:
        name: Unique.
        arrival: When it comes, in seconds.
        bounds: What workers it may have.
        shards: Into how many its batches are cut; as many CPUs it can use.
        seconds: How long it would take with one CPU.
        curve: Its speed-up.
    """

    name: str
    arrival: float
    bounds: WorkerBounds
    shards: int
    seconds: float
    curve: Curve

    def speed(self, cpus: int, workers: int) -> float:
        """Return how many times as fast it is as with one CPU."""
        if not cpus:
            return 0.0
        return self.curve.speedup(min(cpus, self.shards)) * DOUBLING ** math.log2(workers)

    @property
    def shortest(self) -> float:
        """For how long it runs at least, from its arrival to its end."""
        bounds = self.bounds
        most = bounds.most * bounds.cpus_most
        fewest = -(-min(most, self.shards) // bounds.cpus_most)
        return START_SECONDS + self.seconds / self.speed(most, max(1, fewest))


def works(count: int, seed: int) -> list[Work]:
    """Return so many trainings, in order of arrival: most are short, and some are very long.

    They come within half an hour. With half of the CPUs it can use, one takes a quarter of an hour
    in the median.
    """
    rng = random.Random(seed)
    found = []
    for number in range(count):
        most, cpus = rng.choice((2, 4, 8, 16)), rng.choice((4, 8, 16, 32))
        shards = min(256, most * cpus)
        curve = Curve(1.0, rng.choice((0.0005, 0.001, 0.002, 0.005)))
        minutes = 15.0 * rng.lognormvariate(0.0, 0.7)
        seconds = 60.0 * minutes * curve.speedup(max(1, shards // 2))
        found.append(
            Work(
                f"{number:04}",
                rng.uniform(0.0, 1800.0),
                WorkerBounds(1, most, 1, cpus, memory=4e9),
                shards,
                seconds,
                curve,
            )
        )
    return sorted(found, key=lambda work: work.arrival)


@dataclass(frozen=True)
class Outcome:
    """How trainings fared.

    Attributes:
        ends: When each ended, by name.
        used: The number of CPUs that trainings had from some time on, in order of time.
        decisions: How long decisions took, in seconds of CPU time.
        rescales: How often trainings were stopped for a change of their members.
    """

    ends: dict[str, float]
    used: list[tuple[float, int]]
    decisions: list[float]
    rescales: int = 0

    @property
    def makespan(self) -> float:
        """When the last ended."""
        return max(self.ends.values())

    def turnaround(self, some: list[Work]) -> float:
        """Return for how long they took from arrival to end, in the mean."""
        return sum(self.ends[work.name] - work.arrival for work in some) / len(some)


def bound(some: list[Work], cpus: int) -> float:
    """Return a makespan that none can be below: of the longest, and of all together."""
    # With one CPU each none loses anything.
    busy = sum(work.seconds for work in some) / cpus
    return max(busy, *(work.arrival + work.shortest for work in some))
