# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quotas and disruption budgets."""

from __future__ import annotations

import pytest
import yaml

from tests.support.controllers import wait_for
from tests.support.kubernetes.examples import CRD, choir, cpus, pod
from tests.support.kubernetes.refusals import RefusedError


def quota(**hard):
    spec = {"hard": {name.replace("_", "."): value for name, value in hard.items()}}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": spec}


def budget(name="b", **spec):
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, **spec},
    }


def refused(call, *arguments, **more):
    with pytest.raises(RefusedError) as found:
        call(*arguments, **more)
    return found.value


def test_a_quota_is_not_exceeded(client):
    client.create(quota(requests_cpu="1", pods="3"))
    client.create(pod("a", cpus="700m"))
    found = refused(client.create, pod("b", cpus="400m"))
    assert (found.code, found.reason) == (403, "Forbidden")
    assert found.message == (
        'pods "b" is forbidden: exceeded quota: q, requested: requests.cpu=400m, '
        "used: requests.cpu=700m, limited: requests.cpu=1"
    )
    client.create(pod("c", cpus="300m"))
    assert client.create(pod("other", cpus="3"), "kube-system")


def test_a_quota_of_pods(client):
    client.create(quota(pods="1"))
    client.create(pod("a"))
    assert "limited: pods=1" in refused(client.create, pod("b")).message
    client.patch("pods", "a", {"status": {"phase": "Succeeded"}}, part="status")
    client.create(pod("b"))


def test_a_quota_must_be_asked_of(client):
    client.create(quota(limits_cpu="1"))
    item = pod()
    item["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "1"}}
    assert "must specify limits.cpu for: main" in refused(client.create, item).message


def test_a_quota_holds_for_resizes(client):
    client.create(quota(requests_cpu="1"))
    client.create(pod("a", cpus="500m"))
    assert "exceeded quota" in refused(client.patch, "pods", "a", cpus("2"), part="resize").message
    client.patch("pods", "a", cpus("1"), part="resize")
    client.patch("pods", "a", cpus("500m"), part="resize")


def test_a_quota_says_what_is_used(cluster):
    cluster.client.create(quota(requests_cpu="2", pods="5"))
    cluster.client.create(pod("a", cpus="700m"))

    def status():
        return cluster.client.get("resourcequotas", "q").get("status", {}).get("used")

    wait_for(lambda: status() == {"requests.cpu": "700m", "pods": "1"})
    cluster.client.delete("pods", "a")
    wait_for(lambda: status() == {"requests.cpu": "0", "pods": "0"})


def running(client, name, **more):
    client.create(pod(name, labels={"app": "a"}, nodeName="n", **more))
    ready = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.patch("pods", name, {"status": ready}, part="status")


def test_a_budget_lets_go_as_many_as_it_can_spare(client):
    client.create(budget(minAvailable=1))
    for name in ("a", "b"):
        running(client, name)
    client.evict("a")
    conditions = client.get("pods", "a")["status"]["conditions"]
    target = next(one for one in conditions if one["type"] == "DisruptionTarget")
    assert target["reason"] == "EvictionByEvictionAPI"
    found = refused(client.evict, "b")
    assert (found.code, found.reason) == (429, "TooManyRequests")
    assert found.details["causes"][0]["reason"] == "DisruptionBudget"
    client.delete("pods", "b", gracePeriodSeconds=0)  # Only evictions ask it.


def test_pods_that_do_not_run_are_evicted_all_the_same(client):
    client.create(budget(minAvailable=1))
    client.create(pod("waiting", labels={"app": "a"}))
    client.evict("waiting")
    assert client.find("pods", "waiting") is None


@pytest.mark.parametrize("spec", [{"maxUnavailable": 1}, {"minAvailable": "50%"}])
def test_bare_pods_have_no_total_to_take_a_share_of(client, spec):
    """The trap of budgets for bare pods: all evictions are refused."""
    client.create(budget(**spec))
    for name in ("a", "b"):
        running(client, name)
    assert refused(client.evict, "a").code == 429


def test_a_share_is_of_the_scale_of_the_pods_controller(client):
    client.create(yaml.safe_load(CRD))
    owner = client.create(choir())
    client.create(budget(maxUnavailable=1))
    reference = {k: owner[k] for k in ("apiVersion", "kind")}
    reference |= {"name": "one", "uid": owner["metadata"]["uid"], "controller": True}
    client.patch("choirs", "one", {"spec": {"replicas": 2}}, part="scale")
    for name in ("a", "b"):
        running(client, name)
        client.patch("pods", name, {"metadata": {"ownerReferences": [reference]}})
    client.evict("a")
    assert refused(client.evict, "b").code == 429


def test_two_budgets_for_one_pod_are_a_mistake(client):
    client.create(budget("a", minAvailable=0))
    client.create(budget("b", minAvailable=0))
    running(client, "p")
    assert "more than one PodDisruptionBudget" in refused(client.evict, "p").message


def test_a_budget_is_either_way(client):
    both = budget(minAvailable=1, maxUnavailable=1)
    assert refused(client.create, both).code == 422


def test_a_budget_says_how_many_may_go(cluster):
    cluster.client.create(budget(minAvailable=1))
    for name in ("a", "b"):
        cluster.client.create(pod(name, labels={"app": "a"}))

    def allowed():
        status = cluster.client.get("poddisruptionbudgets", "b").get("status", {})
        return status.get("disruptionsAllowed"), status.get("expectedPods")

    wait_for(lambda: allowed() == (0, 2))
    cluster.add_node("n")
    wait_for(lambda: allowed() == (1, 2))


def test_a_limit_range(client):
    limit = {"type": "Container", "min": {"cpu": "100m"}, "max": {"memory": "128Mi"}}
    spec = {"limits": [{**limit, "default": {"memory": "100Mi"}}]}
    client.create(
        {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "l"}, "spec": spec}
    )
    found = refused(client.create, pod("a", cpus="50m"))
    assert found.message == (
        'pods "a" is forbidden: minimum cpu usage per Container is 100m, but request is 50m'
    )
    item = pod("b", cpus="50m")
    item["spec"]["containers"][0]["resources"]["limits"]["memory"] = "1Gi"
    assert ", maximum memory usage per Container is 128Mi, but limit is 1Gi]" in (
        refused(client.create, item).message
    )
    item = pod("c", cpus="1")
    del item["spec"]["containers"][0]["resources"]["limits"]["memory"]
    made = client.create(item)["spec"]["containers"][0]["resources"]["limits"]
    assert made["memory"] == "100Mi"
    assert "usage per" in refused(client.patch, "pods", "c", cpus("50m"), part="resize").message


def test_a_pod_security_standard(client):
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    client.patch("namespaces", "default", {"metadata": {"labels": labels}})
    found = refused(client.create, pod("a"))
    assert (found.code, found.reason) == (403, "Forbidden")
    assert found.message.startswith(
        'pods "a" is forbidden: violates PodSecurity "restricted:latest": '
        'allowPrivilegeEscalation != false (container "main" must set '
        "securityContext.allowPrivilegeEscalation=false), unrestricted capabilities"
    )
    item = pod(
        "a", securityContext={"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    )
    item["spec"]["containers"][0]["securityContext"] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
    }
    client.create(item)
