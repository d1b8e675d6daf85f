# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What nodes have for us, and where we make way."""

from __future__ import annotations

import pytest

from tests.cluster.test_job_spec import item
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import parse
from tf_malleable.cluster.observe.node_affinity import may_be_on, requests
from tf_malleable.cluster.observe.node_capacity import OwnPods, held_until, namespace_quotas, rooms

NOW = 1_000_000.0
GI = 2.0**30
OURS = OwnPods({"j"}, NOW)


def node(name="n", cpus="4", *, ready=True, taints=(), **spec):
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": list(taints), **spec},
        "status": {
            "allocatable": {"cpu": cpus, "memory": "8Gi", "pods": "10"},
            "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown"}],
        },
    }


def pod(name, cpus, where="n", owner="", *, phase="Running", **metadata):
    labels = {resource_names.ROLE: "worker"} if owner else {}
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": name,
            "labels": labels,
            "ownerReferences": [{"uid": owner, "controller": True}] if owner else [],
            **metadata,
        },
        "spec": {
            "nodeName": where,
            "containers": [
                {"name": "c", "resources": {"requests": {"cpu": cpus, "memory": "1Gi"}}}
            ],
        },
        "status": {"phase": phase},
    }


def waiting(name, cpus, why="0/1 nodes are available: 1 Insufficient cpu."):
    made = pod(name, cpus, "", phase="Pending")
    made["status"]["conditions"] = [
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": why}
    ]
    return made


def free(*pods, nodes=None, floors=None, only_in=None):
    floors = {"j": 1.0} if floors is None else floors
    found = rooms(nodes or [node()], pods, floors, OwnPods(set(floors), NOW, only_in))
    return {room.node: room.cpus for room in found}


def test_what_others_request_is_not_ours():
    (room,) = rooms([node()], [pod("a", "1500m"), pod("b", "1", owner="j")], {"j": 1.0}, OURS)
    assert (room.cpus, room.memory, room.pods) == (2.5, 7 * GI, 9)
    assert room.ready
    assert not room.leaving


def test_what_has_ended_requests_nothing():
    assert free(pod("a", "1", phase="Succeeded"), pod("b", "1", phase="Failed")) == {"n": 4}


def test_pods_of_jobs_that_are_not_carried_out_are_others():
    assert free(pod("a", "1", owner="k")) == {"n": 3}


def test_what_a_scheduler_has_freed_for_a_pod_is_not_ours():
    preempting = waiting("p", "2")
    assert free(pod("w", "1", owner="j"), preempting, nodes=[node("a"), node("n")]) == {
        "a": 2,
        "n": 4,
    }
    preempting["status"]["nominatedNodeName"] = "n"
    assert free(pod("w", "1", owner="j"), preempting, nodes=[node("a"), node("n")]) == {
        "a": 4,
        "n": 2,
    }


def test_pods_of_another_operators_namespace_are_others():
    leaving = pod("a", "1", owner="j", deletionTimestamp="1970-01-12T13:48:20Z")
    for one in (pod("a", "1", owner="j"), leaving):
        assert free(one, only_in="default") == {"n": 4}
        assert free(one, only_in="elsewhere") == {"n": 3}


def test_what_leaves_is_free_until_it_is_late():
    def at(seconds):
        stamp = {100: "1970-01-12T13:48:20Z", -100: "1970-01-12T13:45:00Z"}[seconds]
        return pod("a", "1", owner="j", deletionTimestamp=stamp)

    assert free(at(100)) == {"n": 4}
    assert free(at(-100)) == {"n": 3}


@pytest.mark.parametrize(
    ("made", "ready", "leaving"),
    [
        (node(ready=False), False, False),
        (node(unschedulable=True), True, True),
        (node(taints=[{"key": "k", "effect": "NoExecute"}]), True, True),
        (node(taints=[{"key": "k", "effect": "NoSchedule"}]), True, False),
    ],
)
def test_nodes_that_are_to_be_left(made, ready, leaving):
    (room,) = rooms([made], [], {}, OURS)
    assert (room.ready, room.leaving) == (ready, leaving)


def test_way_is_made_for_who_fits_only_in_ours():
    assert free(pod("w", "3", owner="j"), waiting("p", "2")) == {"n": 2}
    # It fits beside us, and it still does when the scheduler binds it.
    assert free(pod("w", "2", owner="j"), waiting("p", "2")) == {"n": 2}
    # It would not run if we were gone.
    assert free(pod("w", "3", owner="j"), waiting("p", "5")) == {"n": 4}
    # It waits for something else.
    assert free(pod("w", "3", owner="j"), waiting("p", "2", "no volume")) == {"n": 4}
    # The training could not go on.
    assert free(pod("w", "3", owner="j"), waiting("p", "2"), floors={"j": 3.0}) == {"n": 4}


def test_way_is_made_where_it_costs_least():
    nodes = [node("a"), node("b")]
    ours = [pod("v", "4", "a", owner="j"), pod("w", "3", "b", owner="j")]
    assert free(*ours, waiting("p", "2"), nodes=nodes) == {"a": 4, "b": 2}


def test_a_pod_in_a_resize_requests_the_most_it_may_have():
    made = pod("a", "1")
    made["status"]["containerStatuses"] = [
        {"name": "c", "allocatedResources": {"cpu": "2", "memory": "512Mi"}}
    ]
    assert (requests(made).cpus, requests(made).memory) == (2, GI)


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({}, False),
        ({"tolerations": [{"key": "gpu", "operator": "Exists"}]}, True),
        ({"tolerations": [{"key": "gpu", "value": "yes"}]}, True),
        ({"tolerations": [{"key": "gpu", "value": "no"}]}, False),
        ({"tolerations": [{"operator": "Exists"}], "nodeSelector": {"zone": "z"}}, False),
    ],
)
def test_where_a_pod_may_be(spec, fits):
    taint = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
    assert may_be_on(spec, node(taints=[taint])) is fits


def test_quotas_less_what_others_use():
    quota = {
        "metadata": {"namespace": "default"},
        "spec": {"hard": {"requests.cpu": "4", "limits.cpu": "3", "pods": "5"}},
    }
    pods = [pod("a", "1"), pod("b", "1", owner="j")]
    # What counts is its limit, where the quota is of limits.
    limits = pods[0]["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1500m"}
    found = namespace_quotas([quota], pods, OURS)["default"]
    assert (found.cpus, found.pods) == (1.5, 4)
    assert found.memory == float("inf")
    limits["cpu"] = "500m"
    assert namespace_quotas([quota], pods, OURS)["default"].cpus == 2.5


def test_quotas_less_what_coordinators_need_that_are_to_come(tmp_path):
    hard = {"requests.cpu": "4", "limits.cpu": "4", "limits.memory": "1Gi", "pods": "5"}
    quota = {"metadata": {"namespace": "default"}, "spec": {"hard": hard}}
    found = namespace_quotas([quota], [], OURS, [parse(item(tmp_path))])["default"]
    assert (found.cpus, found.pods, found.memory) == (3, 4, 0.75 * GI)


def test_a_pod_holds_what_it_requests_until_its_grace_period_is_over():
    def leaving(name, minute, **more):
        return pod(name, "1", deletionTimestamp=f"1970-01-12T13:{minute}:40Z", **more)

    found = held_until(
        [
            leaving("a", 46),
            leaving("b", 47),
            leaving("c", 48, where="m"),
            leaving("d", 59, phase="Failed"),
            leaving("e", 59, where=""),
            pod("f", "1"),
        ],
        {},
        NOW,
    )
    assert found == {"n": NOW + 60, "m": NOW + 120}
    # Gone before the end of its grace period, after it, and not yet.
    assert held_until([], found, NOW + 50) == {"n": NOW + 50, "m": NOW + 50}
    assert held_until([], found, NOW + 90) == {"n": NOW + 60, "m": NOW + 90}
    assert held_until([leaving("c", 48)], {"n": NOW + 5}, NOW + 90) == {"n": NOW + 120}
