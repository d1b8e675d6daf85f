# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

import time
from random import Random

import pytest

from tests.support.cluster_plans import Cluster, check
from tf_malleable.cluster.planning.cluster_job import ClusterJob, WorkerBounds
from tf_malleable.cluster.planning.room import Room
from tf_malleable.policies.registry import DEFAULT, create


@pytest.mark.slow
@pytest.mark.serial("measures how long a decision takes")
@pytest.mark.parametrize("spec", [DEFAULT, "equal", "efficient"])
def test_a_thousand_trainings_on_a_thousand_nodes_take_less_than_a_second(spec: str):
    random, policy = Random(1), create(spec)
    some = Cluster({name: Room(name, 64.0, 2.0**38) for name in map(str, range(1000))})
    for number in range(1000):
        bounds = WorkerBounds(1, random.choice((2, 8)), 1, random.choice((16, 64)), 2.0**32)
        job = ClusterJob(str(number), 0.0, bounds, shards=random.choice((64, 256)))
        some.jobs[job.id] = job
    seconds = []
    for ended in range(4):
        begin = time.thread_time()
        planned = some.plan(policy)
        seconds.append(time.thread_time() - begin)
        check(some, planned)
        some.carry_out(planned)
        if not ended:
            # All could use more than there are; what is left are single CPUs of many nodes.
            assert sum(each.cpus for each in planned.jobs.values()) >= 0.98 * 64_000
        some.now += 10
        for number in range(20 * ended, 20 * ended + 20):
            del some.jobs[str(number)]
    # The first places all at once, and builds the machine.
    assert max(seconds[1:]) < 1.0
