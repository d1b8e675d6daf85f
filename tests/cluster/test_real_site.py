# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What tests do to the nodes of somebody's cluster; here to those of the fake, by HTTP."""

from __future__ import annotations

import pytest
import yaml

from tests.support import ROOT
from tests.support.controllers import wait_for
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.examples import pod
from tests.support.operators import IMAGE, JOBS
from tests.support.real_cluster import IS_REAL, RealClient
from tests.support.real_site import LABEL, RealSite
from tf_malleable.cluster import resource_names

pytestmark = pytest.mark.skipif(IS_REAL, reason="needs a cluster of its own")


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path) as cluster:
        for name, cpus in (("small", 1), ("large", 6), ("middle", 4), ("tainted", 8)):
            taints = [{"key": "mine", "effect": "NoSchedule"}] if name == "tainted" else []
            cluster.add_node(name, cpus, taints=taints)
        cluster.apply((ROOT / "deploy/kubernetes/base/crd.yaml").read_text())
        yield cluster


@pytest.fixture
def site(cluster, tmp_path, monkeypatch):
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig()))
    client = RealClient()
    return RealSite(client, IMAGE, tmp_path)


def test_nodes_are_as_small_as_wanted_and_left_as_they_were(cluster, site):
    cluster.client.create(pod("others", cpus="500m", nodeName="middle"))
    before = {one["metadata"]["name"]: one for one in cluster.client.list("nodes")}
    first, second = site.node("a", 1.5), site.node("b", 3)
    assert (first, second) == ("middle", "large")
    with pytest.raises(pytest.skip.Exception, match="needs 3 nodes with 2 free CPUs"):
        site.node("c", 2)

    def filled():
        return {
            one["spec"].get("nodeName"): one["spec"]["containers"][0]["resources"]["requests"][
                "cpu"
            ]
            for one in site.client.list("pods")
        }

    wait_for(lambda: filled() == {"middle": "2", "large": "3"})
    site.other("other", "1500m")
    wait_for(lambda: site.client.get("pods", "other")["spec"].get("nodeName"))
    assert site.client.get("pods", "other")["spec"]["nodeName"] in (first, second)
    site.nodes.cordon(first)
    assert cluster.client.get("nodes", first)["spec"]["unschedulable"]
    site.close()
    assert [one["metadata"]["name"] for one in cluster.client.list("pods")] == ["others"]
    for one in cluster.client.list("nodes"):
        known = before[one["metadata"]["name"]]
        assert one["metadata"]["labels"] == known["metadata"]["labels"]
        assert one["spec"] == known["spec"]


def test_a_drain_evicts_those_of_the_tests_jobs(cluster, site):
    node = site.node("a", 4)
    for name, labels in (("mine", {resource_names.JOB: "t"}), ("others", {})):
        made = pod(name, cpus="1", labels=labels, nodeSelector={LABEL: site.client.namespace})
        site.client.create(made)
    wait_for(lambda: [one["metadata"]["name"] for one in site.nodes.pods(node)] == ["mine"])
    assert site.nodes.drain(node) == []
    wait_for(lambda: not site.nodes.pods(node))
    assert site.client.find("pods", "others") is not None
    site.kill(site.client.get("pods", "others"))
    assert site.client.find("pods", "others") is None
    site.close()


def test_a_job_is_for_the_tests_nodes_and_ends_at_the_step_that_is_said(site):
    site.submit(workers={"max": 2})
    spec = site.job()["spec"]["template"]["spec"]
    assert spec["nodeSelector"] == {LABEL: site.client.namespace}
    program = site.client.get("configmaps", "program")["data"]["elastic_training.py"]
    words = spec["containers"][0]["command"]
    assert all(word in program for word in words if word.startswith("--") and word != "--")
    status = {"progress": {"step": 50, "stepsPerSecond": 2.0}}
    site.client.patch(JOBS, "t", {"status": status}, part="status")
    step = site.end()
    assert step == 50 + 240
    assert yaml.safe_load(site.client.get("configmaps", "t-steps")["data"]["steps"]) == step
    site.close()
    assert site.client.find("configmaps", "t-steps") is None


def test_a_job_that_goes_by_itself_is_none_to_delete(site, monkeypatch):
    site.submit()
    listed = site.client.list
    found = listed(JOBS)
    site.client.delete(JOBS, "t")
    answers = iter([found])
    monkeypatch.setattr(
        site.client, "list", lambda kind, **more: next(answers, None) or listed(kind, **more)
    )
    site.close()
