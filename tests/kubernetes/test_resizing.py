# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Resizes of pods in place."""

from __future__ import annotations

import pytest

from tests.support.cgroup_probe import skip_without
from tests.support.controllers import wait_for
from tests.support.kubernetes.examples import ask, cpus, pod
from tests.support.kubernetes.refusals import RefusedError


@pytest.fixture
def node(cluster):
    return cluster.add_node("n", 2)


def resize(cluster, amount, name="one"):
    return cluster.client.patch("pods", name, cpus(amount), part="resize")


def container(cluster, name="one"):
    return cluster.client.get("pods", name)["status"].get("containerStatuses", [{}])[0]


def actual(cluster, name="one"):
    return container(cluster, name).get("resources", {}).get("limits", {}).get("cpu")


def condition(cluster, kind, name="one"):
    found = cluster.client.get("pods", name)["status"].get("conditions", ())
    return next((one for one in found if one["type"] == kind), None)


def quota(node, cluster, name="one"):
    """Return the quota of a pod's cgroup, in CPUs."""
    group = node.process(cluster.client.get("pods", name)["metadata"]["uid"]).group
    if group is None:
        skip_without("cpu")
    file = group.cpu / "cpu.max"
    if file.exists():
        amount, period = file.read_text().split()
    else:
        amount = (group.cpu / "cpu.cfs_quota_us").read_text()
        period = (group.cpu / "cpu.cfs_period_us").read_text()
    return int(amount) / int(period)


def start(cluster, name="one", amount="500m", **spec):
    cluster.client.create(pod(name, cpus=amount, **spec))
    wait_for(lambda: "running" in container(cluster, name).get("state", {}))


def test_a_limit_is_the_cgroups_and_a_resize_is_there_at_once(cluster, node):
    start(cluster)
    assert quota(node, cluster) == 0.5
    pid = cluster.pids(cluster.client.get("pods", "one"))
    assert resize(cluster, "1500m")["metadata"]["generation"] == 2
    wait_for(lambda: actual(cluster) == "1500m")
    assert quota(node, cluster) == 1.5
    assert container(cluster)["allocatedResources"]["cpu"] == "1500m"
    assert container(cluster)["restartCount"] == 0
    assert cluster.pids(cluster.client.get("pods", "one")) == pid
    assert cluster.client.get("pods", "one")["status"]["observedGeneration"] == 2
    assert condition(cluster, "PodResizePending") is None


def test_what_the_node_can_never_give_is_infeasible(cluster, node):
    start(cluster)
    resize(cluster, "3")
    wait_for(lambda: condition(cluster, "PodResizePending"))
    found = condition(cluster, "PodResizePending")
    assert (found["status"], found["reason"]) == ("True", "Infeasible")
    assert found["observedGeneration"] == 2
    assert actual(cluster) == "500m"
    resize(cluster, "500m")
    wait_for(lambda: condition(cluster, "PodResizePending") is None)


def test_what_others_have_is_deferred_until_they_give_it_back(cluster, node):
    start(cluster)
    start(cluster, "other", "1500m")
    resize(cluster, "1")
    wait_for(lambda: condition(cluster, "PodResizePending"))
    assert condition(cluster, "PodResizePending")["reason"] == "Deferred"
    assert actual(cluster) == "500m"
    resize(cluster, "1", "other")
    wait_for(lambda: actual(cluster) == "1")
    assert condition(cluster, "PodResizePending") is None


def test_a_deferred_resize_counts_for_the_scheduler(cluster, node):
    start(cluster)
    start(cluster, "other", "1200m")
    resize(cluster, "1")
    wait_for(lambda: condition(cluster, "PodResizePending"))
    cluster.client.create(pod("third", cpus="300m"))
    wait_for(lambda: condition(cluster, "PodScheduled", "third"))
    assert "Insufficient cpu" in condition(cluster, "PodScheduled", "third")["message"]


def test_a_resize_that_takes_long_is_in_progress(cluster, node):
    node.resize_seconds = 600.0
    start(cluster)
    resize(cluster, "1")
    wait_for(lambda: condition(cluster, "PodResizeInProgress"))
    assert container(cluster)["allocatedResources"]["cpu"] == "1"
    assert actual(cluster) == "500m"
    node.resize_seconds = 0.0
    cluster.client.patch("pods", "one", {"metadata": {"labels": {"look": "again"}}})
    wait_for(lambda: actual(cluster) == "1")
    assert condition(cluster, "PodResizeInProgress") is None


def test_a_container_is_restarted_where_its_policy_says_so(cluster, node):
    item = pod(restartPolicy="Always")
    policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
    item["spec"]["containers"][0]["resizePolicy"] = policy
    cluster.client.create(item)
    wait_for(lambda: container(cluster).get("state", {}).get("running"))
    resize(cluster, "1")
    wait_for(lambda: container(cluster)["restartCount"] == 1 and actual(cluster) == "1")
    wait_for(lambda: "running" in container(cluster)["state"])


def test_strategic_merge_resizes_by_container_name(cluster, node):
    start(cluster)

    limits = {"cpu": "1", "memory": "64Mi"}
    one = {"name": "main", "resources": {"requests": limits, "limits": limits}}
    path = "/api/v1/namespaces/default/pods/one/resize"
    status, _, _ = ask(
        cluster.server,
        "PATCH",
        path,
        {"spec": {"containers": [one]}},
        token=cluster.token(),
        content_type="application/strategic-merge-patch+json",
    )
    assert status == 200
    wait_for(lambda: actual(cluster) == "1")


AT = "/spec/containers/0"


@pytest.mark.parametrize(
    ("operation", "why"),
    [
        (("replace", f"{AT}/image", "shell:2"), "only cpu and memory resources are mutable"),
        (("add", f"{AT}/resources/limits/gpu", "1"), "only cpu and memory resources are mutable"),
        (("remove", f"{AT}/resources/limits", None), "cannot be removed"),
        (("replace", f"{AT}/resources/limits/cpu", "1"), "QOS Class may not change"),
        (("replace", f"{AT}/resources/requests/cpu", "2"), "less than or equal to cpu limit"),
        (("replace", f"{AT}/resources/limits/cpu", "lots"), "quantities must match"),
    ],
)
def test_resizes_that_are_refused(client, operation, why):
    client.create(pod())
    op, path, value = operation
    with pytest.raises(RefusedError, match=why) as refused:
        client.patch("pods", "one", [{"op": op, "path": path, "value": value}], part="resize")
    assert refused.value.code == 422


def test_a_node_may_give_no_pod_more_for_reasons_of_its_own(cluster, node):
    start(cluster)
    node.refuses = "Deferred"
    resize(cluster, "1500m")
    wait_for(lambda: condition(cluster, "PodResizePending"))
    assert condition(cluster, "PodResizePending")["reason"] == "Deferred"
    assert actual(cluster) == "500m"
    resize(cluster, "400m")
    wait_for(lambda: actual(cluster) == "400m")
    assert condition(cluster, "PodResizePending") is None
    resize(cluster, "1500m")
    wait_for(lambda: condition(cluster, "PodResizePending"))
    node.refuses = ""
    cluster.client.patch("pods", "one", {"metadata": {"labels": {"look": "again"}}})
    wait_for(lambda: actual(cluster) == "1500m")


@pytest.mark.parametrize("amount", ["1500m", "400m"])
def test_a_static_cpu_manager_resizes_no_guaranteed_pod(cluster, node, amount):
    """As a kubelet of Kubernetes 1.36.2 does."""
    node.refuses = "Infeasible"
    start(cluster)
    made = pod("other", cpus="500m")
    del made["spec"]["containers"][0]["resources"]["limits"]["memory"]
    cluster.client.create(made)
    wait_for(lambda: "running" in container(cluster, "other").get("state", {}))
    resize(cluster, amount)
    wait_for(lambda: condition(cluster, "PodResizePending"))
    assert condition(cluster, "PodResizePending")["reason"] == "Infeasible"
    assert actual(cluster) == "500m"
    resize(cluster, "500m")
    wait_for(lambda: condition(cluster, "PodResizePending") is None)
    resize(cluster, amount, "other")
    wait_for(lambda: actual(cluster, "other") == amount)
