# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the planner does in single situations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.support.cluster_plans import GIB, Cluster
from tf_malleable.cluster.planning.capacity import NamespaceQuota, NodeCapacity
from tf_malleable.cluster.planning.cluster_job import (
    ClusterJob,
    ClusterPlan,
    ClusterRate,
    ServerAt,
    ServerBounds,
    WorkerAt,
    WorkerBounds,
)
from tf_malleable.policies.registry import create

EQUAL = create("equal")


def cluster(*sizes: float, **options: Any) -> Cluster:
    """Return a cluster with nodes a, b, c … of these free CPUs."""
    names = "abcdefgh"[: len(sizes)]
    rooms = {
        name: NodeCapacity(name, cpus, **options) for name, cpus in zip(names, sizes, strict=True)
    }
    return Cluster(rooms)


def add(
    some: Cluster, name: str, workers: tuple[int, int], cpus: tuple[int, int], **options: Any
) -> None:
    memory = options.pop("memory", 0.0)
    options = {"shards": 64, "submitted": some.now, **options}
    some.jobs[name] = ClusterJob(name, workers=WorkerBounds(*workers, *cpus, memory), **options)


def where(planned: ClusterPlan, name: str) -> list[tuple[str, int]]:
    return sorted((each.node, each.cpus) for each in planned.jobs[name].workers)


def placed(some: Cluster, name: str, *workers: WorkerAt, **options: Any) -> None:
    """Let a training have workers already."""
    some.jobs[name] = replace(
        some.jobs[name], placed=workers, state="running", started=some.now - 100.0, **options
    )


def test_a_training_gets_as_few_nodes_as_possible():
    some = cluster(4, 4, 4)
    add(some, "one", (1, 3), (1, 4), shards=3)
    assert where(some.step(EQUAL), "one") == [("a", 3)]
    assert some.plan(EQUAL).jobs["one"].reason == "Granted"


def test_fractions_of_cpus_are_left_over():
    some = cluster(3.9, 0.9)
    add(some, "one", (1, 3), (1, 8))
    assert where(some.step(EQUAL), "one") == [("a", 3)]


def test_several_workers_share_a_node_where_one_cannot_use_it():
    some = cluster(8, 8)
    add(some, "one", (1, 4), (1, 2))
    assert where(some.step(EQUAL), "one") == [("a", 2)] * 4


def test_workers_grow_where_they_are_before_there_are_more():
    some = cluster(8, 8)
    add(some, "one", (1, 1), (8, 8))
    for name in ("two", "three"):
        add(some, name, (1, 4), (1, 8))
    planned = some.step(EQUAL)
    assert where(planned, "two") == where(planned, "three") == [("b", 4)]
    (worker,) = some.jobs["three"].placed
    del some.jobs["two"]
    del some.rooms["a"]
    planned = some.step(EQUAL)
    assert planned.jobs["three"].workers == (replace(worker, cpus=8),)


def test_more_workers_come_once_they_have_been_wanted_for_a_while():
    some = cluster(4)
    add(some, "one", (1, 4), (1, 8))
    some.step(EQUAL)
    some.now += 100
    some.rooms["b"] = NodeCapacity("b", 4)
    first = some.step(EQUAL)
    assert (where(first, "one"), first.jobs["one"].reason) == ([("a", 4)], "Settling")
    assert first.review_at == some.now + 3
    some.now += 2
    assert where(some.step(EQUAL), "one") == [("a", 4)]
    some.now += 1
    assert where(some.step(EQUAL), "one") == [("a", 4), ("b", 4)]


def test_room_that_flaps_changes_nothing():
    some = cluster(4)
    add(some, "one", (1, 4), (1, 8))
    some.step(EQUAL)
    for _ in range(20):
        some.now += 2
        some.rooms["b"] = NodeCapacity("b", 4)
        assert where(some.step(EQUAL), "one") == [("a", 4)]
        some.now += 2
        del some.rooms["b"]
        assert where(some.step(EQUAL), "one") == [("a", 4)]


def test_room_that_grows_meanwhile_is_not_waited_for_anew():
    some = cluster(4)
    add(some, "one", (1, 4), (1, 4))
    some.step(EQUAL)
    some.now += 100
    some.rooms["b"] = NodeCapacity("b", 4)
    some.step(EQUAL)
    some.now += 2
    some.rooms["c"] = NodeCapacity("c", 4)
    some.step(EQUAL)
    some.now += 1
    assert where(some.step(EQUAL), "one") == [("a", 4), ("b", 4), ("c", 4)]


def test_a_few_cpus_more_are_not_worth_a_worker():
    some = cluster(16, 1)
    add(some, "one", (1, 4), (1, 16))
    some.step(EQUAL)
    some.now += 100
    some.step(EQUAL)
    assert where(some.step(EQUAL), "one") == [("a", 16)]


def test_numbers_of_workers_that_shorten_no_run_of_shards_are_not_tried():
    some = cluster(1, 1, 1)
    add(some, "one", (1, 3), (1, 1), shards=4)
    assert where(some.step(EQUAL), "one") == [("a", 1), ("b", 1)]


def test_pressure_takes_cpus_before_workers():
    some = cluster(4, 4)
    add(some, "one", (1, 2), (1, 4), shards=8)
    some.step(EQUAL)
    assert where(some.plan(EQUAL), "one") == [("a", 4), ("b", 4)]
    pods = {each.pod for each in some.jobs["one"].placed}
    add(some, "two", (1, 1), (3, 3))
    planned = some.step(EQUAL)
    assert planned.jobs["two"].cpus == 3
    assert planned.jobs["one"].cpus == 5
    assert {each.pod for each in some.jobs["one"].placed} == pods


def test_pressure_takes_workers_at_once_where_cpus_are_not_enough():
    some = cluster(4, 4)
    add(some, "one", (1, 2), (4, 4), shards=8)
    some.step(EQUAL)
    add(some, "two", (1, 1), (3, 3))
    planned = some.step(EQUAL)
    assert len(where(planned, "one")) == 1
    assert len(where(planned, "two")) == 1


def test_members_leave_a_cordoned_node_and_are_replaced():
    some = cluster(4, 4)
    add(some, "one", (1, 2), (2, 2))
    placed(some, "one", WorkerAt("a", 2, "x"), WorkerAt("a", 2, "y"))
    some.rooms["a"] = NodeCapacity("a", 4, leaving=True)
    planned = some.step(EQUAL)
    assert where(planned, "one") == [("b", 2), ("b", 2)]
    assert all(each.pod is None for each in planned.jobs["one"].workers)


def test_a_member_leaves_a_cordoned_node_even_if_there_is_no_other_room():
    some = cluster(2, 2)
    add(some, "one", (1, 2), (2, 2))
    placed(some, "one", WorkerAt("a", 2, "x"), WorkerAt("b", 2, "y"))
    some.rooms["a"] = NodeCapacity("a", 2, leaving=True)
    assert [each.pod for each in some.step(EQUAL).jobs["one"].workers] == ["y"]


def test_the_last_member_stays_on_a_cordoned_node_until_there_is_room():
    some = cluster(2)
    add(some, "one", (1, 2), (2, 2))
    placed(some, "one", WorkerAt("a", 2, "x"))
    some.rooms["a"] = NodeCapacity("a", 2, leaving=True)
    planned = some.step(EQUAL)
    assert [each.pod for each in planned.jobs["one"].workers] == ["x"]
    assert planned.jobs["one"].reason == "Draining"
    some.rooms["b"] = NodeCapacity("b", 2)
    assert where(some.step(EQUAL), "one") == [("b", 2)]


def test_workers_of_a_node_that_is_gone_are_replaced_at_once():
    some = cluster(4, 4, 4)
    add(some, "one", (1, 2), (4, 4))
    some.step(EQUAL)
    lost = some.jobs["one"].placed[0]
    del some.rooms[lost.node]
    planned = some.step(EQUAL)
    assert len(where(planned, "one")) == 2
    assert lost.pod not in {each.pod for each in planned.jobs["one"].workers}


def test_the_last_worker_survives_although_it_is_too_few():
    some = cluster(2, 2)
    add(some, "one", (2, 2), (2, 2))
    some.step(EQUAL)
    lost, kept = some.jobs["one"].placed
    del some.rooms[lost.node]
    planned = some.step(EQUAL)
    assert [each.pod for each in planned.jobs["one"].workers] == [kept.pod]
    some.jobs["one"] = replace(some.jobs["one"], keeps_state=True)
    assert some.plan(EQUAL).jobs["one"].workers == ()


def test_a_policy_that_pauses_pauses_only_what_has_a_checkpoint():
    policy = create("priority-strict:preempt=longest")
    some = cluster(4)
    add(some, "low", (1, 1), (4, 4))
    some.step(policy)
    add(some, "high", (1, 1), (4, 4), priority=5)
    assert where(some.plan(policy), "low") == [("a", 4)]
    assert some.plan(policy).jobs["high"].reason == "WaitingForCpus"
    some.jobs["low"] = replace(some.jobs["low"], keeps_state=True)
    planned = some.step(policy)
    assert where(planned, "high") == [("a", 4)]
    assert planned.jobs["low"].reason == "Paused"


def test_servers_come_in_proportion_and_beside_the_workers():
    some = cluster(3, 3, 3)
    add(some, "one", (1, 2), (2, 2), servers=ServerBounds(1, 2, 0.5))
    planned = some.step(EQUAL).jobs["one"]
    assert len(planned.workers) == len(planned.servers) == 2
    assert {each.node for each in planned.servers} <= {each.node for each in planned.workers}
    del some.rooms["b"], some.rooms["c"]
    planned = some.step(EQUAL).jobs["one"]
    assert len(planned.workers) == len(planned.servers) == 1


def test_a_server_on_a_cordoned_node_is_replaced():
    some = cluster(4, 4)
    add(some, "one", (1, 1), (2, 2), servers=ServerBounds(1, 1, 0.5))
    placed(some, "one", WorkerAt("a", 2, "x"), placed_servers=(ServerAt("b", "s"),))
    some.rooms["b"] = NodeCapacity("b", 4, leaving=True)
    assert some.step(EQUAL).jobs["one"].servers == (ServerAt("a"),)


def test_a_resize_that_cannot_be_is_answered_with_a_worker_elsewhere():
    some = cluster(8, 8)
    add(some, "one", (1, 2), (2, 8), shards=8)
    placed(some, "one", WorkerAt("a", 2, "x", cpus_limit=2))
    some.step(EQUAL)
    some.now += 3
    assert where(some.step(EQUAL), "one") == [("a", 2), ("b", 4)]


def test_more_workers_with_as_many_cpus_come_if_they_were_measured_to_be_faster():
    some = cluster(4)
    rates = (ClusterRate(4, 1, 1, 10.0), ClusterRate(4, 2, 1, 15.0))
    add(some, "one", (1, 2), (1, 4), rates=rates)
    placed(some, "one", WorkerAt("a", 4, "x"))
    some.step(EQUAL)
    some.now += 3
    assert where(some.step(EQUAL), "one") == [("a", 2), ("a", 2)]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"suspended": True}, "Suspended"),
        ({"admitted_cpus": 1.0}, "WaitingForAdmission"),
        ({"allowed": frozenset({"c"})}, "WaitingForAllowedNodes"),
        ({"memory": 9 * GIB}, "TooLarge"),
        ({"namespace": "poor"}, "WaitingForQuota"),
    ],
)
def test_why_a_training_waits(options: dict[str, Any], reason: str):
    some = cluster(4, 4, memory=8 * GIB)
    some.quotas["poor"] = NamespaceQuota(cpus=1.0)
    add(some, "one", (1, 2), (2, 2), **options)
    planned = some.step(EQUAL).jobs["one"]
    assert (planned.workers, planned.reason) == ((), reason)
    add(some, "two", (1, 2), (2, 2), memory=GIB)
    assert some.step(EQUAL).jobs["two"].cpus == 4


def test_a_training_waits_for_others_and_smaller_ones_do_not_wait_for_it():
    some = cluster(2, 2)
    for name in ("one", "two"):
        add(some, name, (1, 1), (1, 1))
        placed(some, name, WorkerAt("ab"[name == "two"], 1, name))
    add(some, "large", (1, 1), (2, 2))
    some.now += 1
    add(some, "small", (1, 1), (1, 1))
    planned = some.step(EQUAL).jobs
    assert planned["large"].reason == "WaitingForCpus"
    assert "no node can have more than 1 CPU free" in planned["large"].why
    assert planned["small"].cpus == 1


def test_no_more_memory_or_pods_are_used_than_a_node_has():
    some = cluster(8, memory=5 * GIB)
    add(some, "one", (1, 8), (1, 1), memory=2 * GIB)
    assert some.step(EQUAL).jobs["one"].cpus == 2
    some = cluster(8, pods=3)
    add(some, "one", (1, 8), (1, 1))
    assert some.step(EQUAL).jobs["one"].cpus == 3


def test_new_members_avoid_nodes_where_pods_do_not_start():
    some = cluster(4, 4)
    add(some, "one", (1, 1), (2, 2), avoided=frozenset({"a"}))
    assert where(some.step(EQUAL), "one") == [("b", 2)]


def test_what_was_admitted_is_the_most():
    some = cluster(16)
    add(some, "one", (1, 4), (2, 4), admitted_cpus=6.5)
    planned = some.step(EQUAL).jobs["one"]
    assert (planned.cpus, planned.reason) == (6, "Admitted")
    assert (planned.requested, "asks" in planned.why) == (None, False)


def test_more_is_asked_for_and_used_only_once_it_is_admitted():
    some = cluster(16)
    add(some, "one", (1, 4), (2, 4), admitted_cpus=6.5, asks_for_more=True)
    planned = some.step(EQUAL).jobs["one"]
    assert (planned.cpus, planned.requested, planned.reason) == (6, 16, "Admitted")
    assert planned.why.endswith("and asks for 16 CPUs")
    some.jobs["one"] = replace(some.jobs["one"], admitted_cpus=16.0)
    some.now += 60
    some.step(EQUAL)
    some.now += 60
    planned = some.step(EQUAL).jobs["one"]
    assert (planned.cpus, planned.requested, planned.reason) == (16, 16, "Granted")
    add(some, "two", (1, 4), (2, 4), suspended=True, asks_for_more=True)
    assert some.step(EQUAL).jobs["two"].requested == 16


def test_a_namespace_keeps_within_its_quota_and_leaves_the_rest_to_others():
    some = cluster(16)
    some.quotas["default"] = NamespaceQuota(cpus=4.0)
    add(some, "one", (1, 1), (1, 16))
    add(some, "two", (1, 1), (1, 16), namespace="other")
    planned = some.step(EQUAL).jobs
    assert (planned["one"].cpus, planned["two"].cpus) == (4, 12)


@pytest.mark.parametrize(("done", "workers"), [(0.0, 2), (995.0, 1)])
def test_a_training_that_ends_soon_is_not_stopped_for_more_workers(done: float, workers: int):
    some = cluster(4, 4)
    rates = (ClusterRate(4, 1, 1, 10.0),)
    add(some, "one", (1, 2), (1, 4), rates=rates, steps_done=done, steps_total=1000.0)
    placed(some, "one", WorkerAt("a", 4, "x"))
    some.step(EQUAL)
    some.now += 3
    assert len(some.step(EQUAL).jobs["one"].workers) == workers


def test_a_worker_moves_where_it_can_have_much_more():
    some = cluster(8, 8)
    add(some, "one", (1, 1), (1, 8))
    add(some, "two", (1, 1), (1, 8))
    placed(some, "one", WorkerAt("a", 4, "x"))
    placed(some, "two", WorkerAt("a", 4, "y"))
    assert [each.cpus for each in some.step(EQUAL).jobs.values()] == [4, 4]
    some.now += 3
    planned = some.step(EQUAL)
    assert sorted(where(planned, "one") + where(planned, "two")) == [("a", 8), ("b", 8)]
    again = some.step(EQUAL)
    assert where(again, "one") == where(planned, "one")


@pytest.mark.parametrize(("here", "done"), [(15, 0.0), (4, 995.0)])
def test_none_moves_for_little_or_shortly_before_the_end(here: int, done: float):
    some = cluster(here, 16)
    rates = (ClusterRate(here, 1, 1, 1.0),)
    add(some, "one", (1, 1), (1, 16), rates=rates, steps_done=done, steps_total=1000.0)
    placed(some, "one", WorkerAt("a", here, "x"))
    for _ in range(3):
        some.now += 10
        assert where(some.step(EQUAL), "one") == [("a", here)]


def test_fewer_workers_are_left_once_they_were_measured_to_be_as_fast():
    some = cluster(4)
    rates = (ClusterRate(4, 1, 1, 15.0), ClusterRate(4, 2, 1, 10.0))
    add(some, "one", (1, 2), (1, 4), rates=rates)
    placed(some, "one", WorkerAt("a", 2, "x"), WorkerAt("a", 2, "y"))
    assert len(some.step(EQUAL).jobs["one"].workers) == 2
    some.now += 1
    assert where(some.step(EQUAL), "one") == [("a", 4)]


def test_what_more_workers_would_not_bring_is_not_asked_for_either():
    """Else CPUs are kept for them until they are due, and then all begins anew."""
    some = cluster(1, 3.95)
    measured = (ClusterRate(3, 1, 1, 1.0),)
    add(some, "one", (1, 3), (1, 3), shards=4, rates=measured)
    placed(some, "one", WorkerAt("b", 3, "p"))
    for _ in range(30):
        assert where(some.step(EQUAL), "one") == [("b", 3)]
        some.now += 1


def test_a_cpu_is_not_offered_to_two_workers():
    """One that stays could have it, or one that comes: not both."""
    some = cluster(2, 1)
    add(some, "one", (1, 4), (1, 2), shards=4, admitted_cpus=3)
    placed(some, "one", WorkerAt("a", 2, "p"))
    some.step(EQUAL)
    some.now += 60
    for _ in range(3):
        assert where(some.step(EQUAL), "one") == [("a", 2), ("b", 1)]
        some.now += 20
