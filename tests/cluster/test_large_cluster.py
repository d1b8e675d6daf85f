# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How much longer the operator decides about a larger cluster."""

from __future__ import annotations

import copy
import time

import pytest

from tests.cluster.test_job_spec import item
from tests.cluster.test_node_capacity import node
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.reconcile.actions import CreatePod, WriteStatus
from tf_malleable.cluster.reconcile.reconciler import ClusterSnapshot, Reconciler
from tf_malleable.cluster.settings import Timings
from tf_malleable.policies.registry import DEFAULT, create

BEGIN = 1.8e9
# Of jobs and nodes; a decision that looked at each of one kind for each of the other would take
# 16 times as long about the larger cluster.
FEW, MANY = 250, 1000
MOST_TIMES = 12.0


def running(draft):
    """Return a pod that runs where it is to be."""
    made = copy.deepcopy(draft)
    metadata, spec = made["metadata"], made["spec"]
    metadata |= {"uid": metadata["name"], "resourceVersion": "1"}
    metadata["creationTimestamp"] = "2026-01-02T03:04:05Z"
    spec["nodeName"] = metadata["annotations"][resource_names.NODE]
    statuses = [
        {
            "name": each["name"],
            "state": {"running": {}},
            "resources": each["resources"],
            "allocatedResources": each["resources"]["requests"],
        }
        for each in spec["containers"]
    ]
    made["status"] = {"phase": "Running", "podIP": "1.2.3.4", "containerStatuses": statuses}
    return made


def longest(tmp_path, count):
    """Return the CPU time of the longest decision but the first, with so many of both."""
    nodes = []
    for number in range(count):
        nodes.append(node(f"n{number:04}", "64"))
        nodes[-1]["metadata"]["resourceVersion"] = "1"
    jobs = {}
    for number in range(count):
        bounds = {"min": 1, "max": 16, "cpu": {"min": 1, "max": 16}}
        made = item(tmp_path, shards=64, workers=bounds)
        uid = f"u{number}"
        made["metadata"] |= {"name": f"j{number}", "uid": uid, "resourceVersion": "1"}
        made["metadata"]["finalizers"] = [resource_names.FINALIZER]
        jobs[uid] = made
    decider = Reconciler(create(DEFAULT), Timings())
    pods, seconds = [], []
    # Objects that a job needs, coordinators, workers, and nothing any more.
    for turn in range(4):
        scene = ClusterSnapshot(
            tuple(jobs.values()), tuple(pods), tuple(nodes), (), {}, BEGIN + 20 * turn
        )
        begin = time.thread_time()
        decision = decider.decide(scene)
        seconds.append(time.thread_time() - begin)
        made = []
        for uid, each in decision.jobs.items():
            decider.memories[uid].address = "10.0.0.1"
            made += [running(one.pod) for one in each.actions if isinstance(one, CreatePod)]
            for one in each.actions:
                if isinstance(one, WriteStatus):
                    jobs[uid]["status"] = {**jobs[uid].get("status", {}), **one.change}
        pods += made
    assert len(pods) > 4 * count
    assert not made
    # The first builds the machine of all nodes.
    return max(seconds[1:])


@pytest.mark.slow
@pytest.mark.serial("measures how long a decision takes")
def test_a_decision_takes_about_as_many_times_as_long_as_there_are_more(tmp_path):
    few, many = longest(tmp_path, FEW), longest(tmp_path, MANY)
    assert many < MOST_TIMES * few, (few, many)
