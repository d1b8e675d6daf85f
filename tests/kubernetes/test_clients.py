# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The real clients against the fake: Kubernetes's own for Python, and kopf."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from contextlib import contextmanager

import kubernetes.client as kubernetes
import pytest
import yaml
from kubernetes import config, watch

from tests.support import ROOT
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.kubernetes.authorization import account, unused
from tests.support.kubernetes.examples import CRD, choir, pod
from tests.support.kubernetes.refusals import RefusedError

ROLES = """
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: choirmaster}
rules:
- {apiGroups: [example.com], resources: [choirs], verbs: [list, watch, patch]}
- {apiGroups: [example.com], resources: [choirs/status], verbs: [patch]}
- {apiGroups: [""], resources: [events], verbs: [create]}
- {apiGroups: [""], resources: [pods], verbs: [list, create, delete]}
- {apiGroups: [apiextensions.k8s.io], resources: [customresourcedefinitions], verbs: [list, watch]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: choirmaster}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: choirmaster}
subjects: [{kind: ServiceAccount, name: choirmaster, namespace: default}]
"""
MASTER = account("default", "choirmaster")


@pytest.fixture
def core(cluster):
    with config.new_client_from_config(str(cluster.kubeconfig())) as found:
        yield kubernetes.CoreV1Api(found)


@pytest.mark.slow
def test_the_client_reads_and_writes(core, cluster):
    made = core.create_namespaced_pod("default", pod("a", cpus="0.5"))
    assert made.spec.containers[0].resources.limits["cpu"] == "500m"
    assert [one.metadata.name for one in core.list_pod_for_all_namespaces().items] == ["a"]
    with pytest.raises(kubernetes.ApiException) as refused:
        core.create_namespaced_pod("default", pod("a"))
    assert (refused.value.status, refused.value.reason) == (409, "Conflict")
    core.patch_namespaced_pod("a", "default", {"metadata": {"labels": {"x": "y"}}})
    assert core.read_namespaced_pod("a", "default").metadata.labels == {"x": "y"}
    core.delete_namespaced_pod("a", "default")
    assert cluster.client.find("pods", "a") is None


def test_the_client_resizes_evicts_and_reads_logs(core, cluster):
    cluster.add_node("n")
    core.create_namespaced_pod("default", pod("a", script="echo hello; exec sleep 300"))
    wait_for(lambda: core.read_namespaced_pod("a", "default").status.phase == "Running")
    wait_for(lambda: core.read_namespaced_pod_log("a", "default") == "hello\n")
    amount = {"cpu": "1", "memory": "64Mi"}
    change = [{"name": "main", "resources": {"limits": amount, "requests": amount}}]
    core.patch_namespaced_pod_resize("a", "default", {"spec": {"containers": change}})

    def actual():
        (status,) = core.read_namespaced_pod("a", "default").status.container_statuses
        return status.resources.limits["cpu"]

    wait_for(lambda: actual() == "1")
    eviction = kubernetes.V1Eviction(metadata=kubernetes.V1ObjectMeta(name="a"))
    core.create_namespaced_pod_eviction("a", "default", eviction)
    wait_for(lambda: cluster.client.find("pods", "a") is None)


def test_the_client_watches_and_begins_anew_when_it_is_too_late(core, cluster):
    since = core.list_namespaced_pod("default").metadata.resource_version
    core.create_namespaced_pod("default", pod("a"))
    stream = watch.Watch().stream(
        core.list_namespaced_pod, "default", resource_version=since, timeout_seconds=20
    )
    assert next(stream)["object"].metadata.name == "a"
    stream.close()
    cluster.api.compact()
    late = watch.Watch().stream(
        core.list_namespaced_pod, "default", resource_version=since, timeout_seconds=20
    )
    with pytest.raises(kubernetes.ApiException) as gone:
        next(late)
    assert gone.value.status == 410


@pytest.mark.slow
def test_the_client_holds_a_lease(core):
    leases = kubernetes.CoordinationV1Api(core.api_client)
    spec = {"holderIdentity": "me", "leaseDurationSeconds": 15, "leaseTransitions": 0}
    lease = leases.create_namespaced_lease("default", {"metadata": {"name": "l"}, "spec": spec})
    stale = core.api_client.sanitize_for_serialization(lease)
    lease.spec.holder_identity = "somebody"
    leases.replace_namespaced_lease("l", "default", lease)
    with pytest.raises(kubernetes.ApiException) as refused:
        leases.replace_namespaced_lease("l", "default", stale)
    assert refused.value.status == 409


def test_the_client_scales_custom_objects(core, cluster):
    cluster.client.create(yaml.safe_load(CRD))
    cluster.client.create(choir())
    custom = kubernetes.CustomObjectsApi(core.api_client)
    where = ("example.com", "v1", "default", "choirs", "one")
    custom.patch_namespaced_custom_object_scale(*where, {"spec": {"replicas": 2}})
    assert custom.get_namespaced_custom_object(*where)["spec"]["singers"]["max"] == 2
    custom.patch_namespaced_custom_object_status(*where, {"status": {"singers": 2}})
    assert custom.get_namespaced_custom_object_scale(*where)["status"]["replicas"] == 2


@contextmanager
def operator(cluster, folder):
    log = folder / "operator.log"
    environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig(MASTER)), "PYTHONPATH": ""}
    program = ROOT / "tests" / "support" / "kubernetes" / "choirmaster.py"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "kopf", "run", "--all-namespaces", str(program)],
            env=environment,
            stdout=file,
            stderr=subprocess.STDOUT,
        )
    try:
        yield log
    except AssertionError as error:
        raise AssertionError(f"{error}; the operator said: {log.read_text()[-3000:]}") from error
    finally:
        process.terminate()
        try:
            process.wait(DEADLINE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def singers(cluster):
    pods = cluster.client.list("pods", labelSelector="choir=one")
    return sorted(one["metadata"]["name"] for one in pods if one["status"]["phase"] == "Running")


def heard(cluster):
    return int(cluster.client.get("choirs", "one").get("status", {}).get("heard", 0))


def scale(cluster, number):
    cluster.client.patch("choirs", "one", {"spec": {"replicas": number}}, part="scale")


@pytest.mark.slow
@pytest.mark.skipif(sys.version_info < (3, 11), reason="kopf needs Python 3.11")
def test_a_kopf_operator_through_all_that_goes_wrong(cluster, tmp_path):
    """It creates, scales and deletes pods, past conflicts, gaps in watches and dead servers."""
    cluster.apply(CRD)
    cluster.apply(ROLES)
    cluster.add_node("n", 8)
    cluster.server.faults.inject(500, verb="create", resource="pods", user=MASTER.name)
    cluster.server.faults.inject(409, verb="create", resource="pods", skip=1, user=MASTER.name)
    # Not 409: it would silently end kopf's timer, which only tries 5xx and 429 again.
    cluster.server.faults.inject(503, verb="patch", resource="choirs/status", user=MASTER.name)
    with operator(cluster, tmp_path):
        cluster.client.create(choir(singers={"max": 2}))
        # Its first handling fails for the 500, and is tried again.
        wait_for(lambda: "finalizers" in cluster.client.get("choirs", "one")["metadata"])
        scale(cluster, 3)
        wait_for(lambda: singers(cluster) == ["one-0", "one-1", "one-2"])
        cluster.server.cut_watches()
        cluster.api.compact()
        scale(cluster, 1)
        wait_for(lambda: singers(cluster) == ["one-0"])
        cluster.server.kill()
        time.sleep(0.1)
        cluster.server.start()
        scale(cluster, 2)
        wait_for(lambda: singers(cluster) == ["one-0", "one-1"])
        wait_for(lambda: heard(cluster) > 3)
        cluster.client.delete("choirs", "one")
        wait_for(lambda: cluster.client.find("choirs", "one") is None)
        wait_for(lambda: not cluster.client.list("pods"))
    assert {event["reason"] for event in cluster.client.list("events")} >= {"Hired"}
    rules = cluster.client.get("clusterroles", "choirmaster")["rules"]
    assert unused(rules, cluster.calls(MASTER)) == []
    with pytest.raises(RefusedError):
        cluster.client.get("choirs", "one")
