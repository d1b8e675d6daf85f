# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Where pods go, and why they wait."""

from __future__ import annotations

import pytest

from tests.support.controllers import wait_for
from tests.support.kubernetes import scheduler
from tests.support.kubernetes.examples import pod, priority
from tests.support.kubernetes.refusals import RefusedError

NODE = {
    "metadata": {"name": "n", "labels": {"zone": "a", "rank": "3"}},
    "spec": {},
    "status": {
        "allocatable": {"cpu": "2", "memory": "1Gi", "pods": "2"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}


def on(**node):
    return {**NODE, **node}


def affinity(*terms):
    wanted = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": wanted}}


def within(key, *values, operator="In", what="matchExpressions"):
    return {what: [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("spec", "fits"),
    [
        ({}, True),
        ({"nodeSelector": {"zone": "a"}}, True),
        ({"nodeSelector": {"zone": "b"}}, False),
        ({"affinity": affinity(within("zone", "b"), within("zone", "a"))}, True),
        ({"affinity": affinity(within("zone", "b"))}, False),
        ({"affinity": affinity(within("rank", "2", operator="Gt"))}, True),
        ({"affinity": affinity(within("metadata.name", "n", what="matchFields"))}, True),
        ({"affinity": affinity(within("metadata.name", "m", what="matchFields"))}, False),
        ({"affinity": affinity({})}, False),
    ],
)
def test_required_affinity(spec, fits):
    assert (scheduler.obstacle(NODE, pod(**spec), []) == "") is fits


TAINT = {"key": "k", "value": "v", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        ({"key": "k", "value": "v"}, True),
        ({"key": "k", "operator": "Exists"}, True),
        ({"operator": "Exists"}, True),
        ({"key": "k", "value": "w"}, False),
        ({"key": "k", "operator": "Exists", "effect": "NoExecute"}, False),
    ],
)
def test_tolerations(toleration, fits):
    node = on(spec={"taints": [TAINT]})
    assert (scheduler.obstacle(node, pod(tolerations=[toleration]), []) == "") is fits


def test_nodes_that_take_nobody():
    assert "unschedulable" in scheduler.obstacle(on(spec={"unschedulable": True}), pod(), [])
    status = {**NODE["status"], "conditions": [{"type": "Ready", "status": "Unknown"}]}
    assert "not ready" in scheduler.obstacle(on(status=status), pod(), [])


def filled(amount):
    item = pod(cpus=amount)
    resources = item["spec"]["containers"][0]["resources"]
    resources["requests"] = dict(resources["limits"])
    return item


def test_what_is_requested_has_to_fit():
    assert scheduler.obstacle(NODE, filled("500m"), [filled("1500m")]) == ""
    assert scheduler.obstacle(NODE, filled("600m"), [filled("1500m")]) == "Insufficient cpu"
    assert scheduler.obstacle(NODE, filled("1m"), [filled("1m")] * 2) == "Too many pods"


def test_while_a_resize_is_under_way_the_most_counts():
    other = filled("500m")
    other["status"] = {
        "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1500m"}}]
    }
    assert scheduler.obstacle(NODE, filled("600m"), [other]) == "Insufficient cpu"


def node_of(client, name):
    return client.get("pods", name)["spec"].get("nodeName")


def why(client, name):
    conditions = client.get("pods", name)["status"].get("conditions", ())
    return next((c.get("message") for c in conditions if c["type"] == "PodScheduled"), None)


def test_a_pod_that_fits_nowhere_says_why_and_goes_when_there_is_room(cluster):
    cluster.add_node("small", 1)
    cluster.add_node("tainted", 8, taints=[TAINT])
    cluster.client.create(pod("a", cpus="2"))
    wait_for(lambda: why(cluster.client, "a"))
    assert why(cluster.client, "a") == (
        "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) had untolerated taint {k: v}."
    )
    cluster.add_node("big", 2)
    wait_for(lambda: node_of(cluster.client, "a") == "big")


def test_of_those_that_wait_the_highest_priority_goes_first(cluster):
    for name, value in (("low", 1), ("high", 5)):
        cluster.client.create(priority(name, value))
        cluster.client.create(pod(name, cpus="1", priorityClassName=name))
    cluster.add_node("n", 1)
    wait_for(lambda: node_of(cluster.client, "high"))
    # If it was tried first, it was preempted.
    wait_for(
        lambda: cluster.client.find("pods", "low") is None or not node_of(cluster.client, "low")
    )


def test_gates_hold_a_pod_until_they_are_gone(cluster):
    cluster.add_node("n")
    cluster.client.create(pod("a", schedulingGates=[{"name": "a.b/c"}]))
    wait_for(lambda: why(cluster.client, "a"))
    cluster.client.patch("pods", "a", {"spec": {"schedulingGates": None}})
    wait_for(lambda: node_of(cluster.client, "a") == "n")


def test_a_pod_is_bound_once(client):
    client.create(pod())
    body = {"kind": "Binding", "target": {"kind": "Node", "name": "n"}}
    client.post("pods", "one", "binding", body, "default")
    with pytest.raises(RefusedError, match='already assigned to node "n"'):
        client.post("pods", "one", "binding", body, "default")


def test_a_cordoned_node_takes_nobody_more(cluster):
    cluster.add_node("n")
    cluster.cordon("n")
    cluster.client.create(pod("a"))
    wait_for(lambda: why(cluster.client, "a"))
    assert "unschedulable" in why(cluster.client, "a")
    cluster.cordon("n", on=False)
    wait_for(lambda: node_of(cluster.client, "a") == "n")


def test_a_pod_sent_to_a_full_node_by_name_fails_there(cluster):
    cluster.add_node("n", 1)
    cluster.client.create(pod("a", cpus="2", nodeName="n"))
    wait_for(lambda: cluster.client.get("pods", "a")["status"]["phase"] == "Failed")
    assert cluster.client.get("pods", "a")["status"]["reason"] == "OutOfcpu"


def test_requests_are_counted_while_a_pod_stops(cluster):
    """A pod that has left its place is one that is gone from the API."""
    cluster.add_node("n", 1)
    cluster.client.create(pod("a", "trap '' TERM; echo on; while :; do sleep 0.05; done", cpus="1"))
    wait_for(lambda: cluster.log("a") == "on\n")
    cluster.client.delete("pods", "a")
    cluster.client.create(pod("b", cpus="1"))
    wait_for(lambda: why(cluster.client, "b"))
    cluster.client.delete("pods", "a", gracePeriodSeconds=1)
    wait_for(lambda: node_of(cluster.client, "b") == "n")
    assert cluster.client.find("pods", "a") is None


def test_a_pod_of_higher_priority_has_the_fewest_others_deleted(cluster):
    cluster.add_node("n", 3)
    cluster.client.create(priority("high", 5))
    cluster.client.create(priority("patient", 6, preemptionPolicy="Never"))

    def runs(name):
        return cluster.client.get("pods", name)["status"]["phase"] == "Running"

    for name in ("a", "b"):
        cluster.client.create(pod(name, cpus="1", script="sleep 300 & wait"))
        wait_for(lambda name=name: runs(name))
    cluster.client.create(pod("waits", cpus="3", priorityClassName="patient"))
    cluster.client.create(pod("urgent", cpus="2", priorityClassName="high"))
    wait_for(lambda: runs("urgent"))
    assert cluster.client.get("pods", "urgent")["status"]["nominatedNodeName"] == "n"
    left = [name for name in ("a", "b") if cluster.client.find("pods", name)]
    assert [runs(name) for name in left] == [True]
    assert not runs("waits")
    with pytest.raises(RefusedError, match="no PriorityClass with name none"):
        cluster.client.create(pod("c", priorityClassName="none"))
    with pytest.raises(RefusedError, match="must not be provided in pod spec"):
        cluster.client.create(pod("c", priority=7))
