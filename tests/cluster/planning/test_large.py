# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How much longer planning takes for a larger cluster."""

from __future__ import annotations

import time
from random import Random

import pytest

from tests.support.cluster_plans import Cluster, check
from tf_malleable.cluster.planning.capacity import NodeCapacity
from tf_malleable.cluster.planning.cluster_job import ClusterJob, WorkerBounds
from tf_malleable.policies.registry import DEFAULT, create

# Of trainings and nodes. A decision about four times as many would take 16 times as long if it
# looked at each of one kind for each of the other.
FEW, MANY = 250, 1000
MOST_TIMES = 12.0


def seconds(spec: str, count: int) -> float:
    """Return the CPU time of the longest decision but the first, with so many of both."""
    random, policy = Random(1), create(spec)
    some = Cluster({name: NodeCapacity(name, 64.0, 2.0**38) for name in map(str, range(count))})
    for number in range(count):
        bounds = WorkerBounds(1, random.choice((2, 8)), 1, random.choice((16, 64)), 2.0**32)
        job = ClusterJob(str(number), 0.0, bounds, shards=random.choice((64, 256)))
        some.jobs[job.id] = job
    found = []
    for ended in range(4):
        begin = time.thread_time()
        planned = some.plan(policy)
        found.append(time.thread_time() - begin)
        check(some, planned)
        some.carry_out(planned)
        if not ended:
            # All could use more than there are; what is left are single CPUs of many nodes.
            assert sum(each.cpus for each in planned.jobs.values()) >= 0.98 * 64 * count
        some.now += 10
        for number in range(20 * ended, 20 * ended + 20):
            del some.jobs[str(number)]
    # The first places all at once, and builds the machine.
    return max(found[1:])


@pytest.mark.slow
@pytest.mark.serial("measures how long a decision takes")
@pytest.mark.parametrize("spec", [DEFAULT, "equal", "efficient"])
def test_a_decision_takes_about_as_many_times_as_long_as_there_are_more(spec: str):
    few, many = seconds(spec, FEW), seconds(spec, MANY)
    assert many < MOST_TIMES * few, (few, many)
