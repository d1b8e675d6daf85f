# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Kills at random: no training is lost, none ends with wrong numbers, and no pod is left over.

TFM_TEST_OPERATOR_KILLS=100 kills so often, and TFM_TEST_SEED=N in another order.
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter

import pytest

from tests.support.operators import JOBS
from tf_malleable.cluster import resource_names

COUNT = int(os.environ.get("TFM_TEST_OPERATOR_KILLS", "6"))
SEED = int(os.environ.get("TFM_TEST_SEED", "1"))
KINDS = ("worker", "server", "coordinator", "operator", "node", "api")
NODES = ("a", "b", "c")


@pytest.mark.fake("kills nodes, operators and the API server")
@pytest.mark.slow
def test_kills_at_random(site):
    chance = random.Random(SEED)
    for name in NODES:
        site.cluster.add_node(name, 2.5)
    operator = site.spawn(identity="0", lease_seconds=1.0)
    servers = {"min": 1, "max": 1, "cpu": "500m"}
    site.submit(workers={"max": 2}, parameterServers=servers, backoffLimit=20)
    site.wait_for_workers(2)
    done = Counter()
    bag = []
    for number in range(1, COUNT + 1):
        bag = bag or chance.sample(KINDS, len(KINDS))
        kind = bag.pop()
        done[kind] += 1
        # Somebody must have the state: what all have lost is lost.
        site.wait(lambda: holders(site) >= 2)
        if kind in ("worker", "server", "coordinator"):
            found = site.pods(role=kind)
            if found:
                site.kill(chance.choice(found))
        elif kind == "operator":
            operator.kill()
            time.sleep(chance.uniform(0.0, 0.5))
            operator = site.spawn(identity=str(number), lease_seconds=1.0)
        elif kind == "node":
            nodes = [pod["spec"].get("nodeName") for pod in site.pods()]
            node = chance.choice([each for each in nodes if each])
            if nodes.count(node) < 2:
                site.cluster.kill_node(node)
                time.sleep(chance.uniform(0.0, 1.5))
                site.cluster.restart_node(node)
        else:
            site.cluster.server.kill()
            time.sleep(chance.uniform(0.0, 0.5))
            site.cluster.server.start()
        time.sleep(chance.uniform(0.0, 0.5))
    assert sum(done.values()) == COUNT
    site.wait_for_workers(2)
    site.finish()
    assert len(site.client.list("pods", labelSelector=f"{resource_names.JOB}=t")) >= 1
    site.client.delete(JOBS, "t")
    site.wait(lambda: not site.client.list("pods"))


def holders(site):
    """Return how many workers that run have the state."""
    return sum(
        pod["metadata"]["labels"].get(resource_names.HOLDER) == "true"
        and bool(site.cluster.pids(pod))
        for pod in site.pods()
    )
