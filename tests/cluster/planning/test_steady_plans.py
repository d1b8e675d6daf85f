# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What random plans found: workers that changed places, and limits that were exceeded."""

from __future__ import annotations

from dataclasses import replace

from tests.support.cluster_plans import Cluster
from tf_malleable.cluster.planning.capacity import NamespaceQuota, NodeCapacity
from tf_malleable.cluster.planning.cluster_job import (
    ClusterJob,
    ServerAt,
    ServerBounds,
    WorkerAt,
    WorkerBounds,
)
from tf_malleable.policies.registry import create


def running(name: str, *placed: WorkerAt, workers: WorkerBounds, **options: object) -> ClusterJob:
    """Return a training that runs since a while."""
    job = ClusterJob(name, 900.0, workers=workers, shards=8, shard_cpus=0, placed=placed)
    return replace(job, state="running", started=900.0, since=900.0, **options)  # type: ignore[arg-type]


def test_equal_workers_on_one_node_do_not_change_places():
    some = Cluster(
        {"a": NodeCapacity("a", 4.0), "b": NodeCapacity("b", 15.9), "c": NodeCapacity("c", 3.7)}
    )
    placed = (WorkerAt("a", 4, "x"), WorkerAt("b", 8, "y"), WorkerAt("b", 7, "z"))
    some.jobs["one"] = running("one", *placed, workers=WorkerBounds(3, 3, 4, 8))
    for _ in range(3):
        assert some.step(create("equal")).jobs["one"].workers == placed


def test_a_worker_that_must_stay_asks_for_no_more_than_its_node_can_give():
    some = Cluster({"a": NodeCapacity("a", 15.9, leaving=True)})
    placed = (WorkerAt("a", 4, "x", cpus_limit=3), WorkerAt("a", 4, "y"))
    some.jobs["one"] = running("one", *placed, workers=WorkerBounds(2, 4, 1, 9))
    planned = some.step(create("equal")).jobs["one"]
    assert planned.reason == "Draining"
    assert [each.cpus for each in planned.workers] == [3, 4]


def test_one_that_keeps_its_last_worker_is_not_filled_up_beyond_its_quota():
    some = Cluster({"a": NodeCapacity("a", 8.0), "b": NodeCapacity("b", 2.0)})
    some.quotas["default"] = NamespaceQuota(4.0)
    some.jobs["one"] = running(
        "one",
        WorkerAt("b", 1, "x"),
        workers=WorkerBounds(2, 4, 1, 2),
        servers=ServerBounds(1, 1, 0.1),
        placed_servers=(ServerAt("a", "s"),),
    )
    # The policy prefers one that finds no place, and then another of the same namespace.
    waits = ClusterJob("two", 0.0, WorkerBounds(1, 1, 2, 2), shards=8, allowed=frozenset("b"))
    some.jobs["two"] = waits
    some.jobs["three"] = ClusterJob("three", 1.0, WorkerBounds(2, 2, 1, 1), shards=8)
    planned = some.step(create("lend+round-robin-strict")).jobs
    assert {name: each.cpus for name, each in planned.items()} == {"one": 1, "two": 0, "three": 2}
    assert planned["one"].reason == "WaitingForCpus"
