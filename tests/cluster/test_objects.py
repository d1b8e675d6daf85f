# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the operator creates."""

from __future__ import annotations

import copy
from dataclasses import replace

import pytest

from tests.cluster.test_job_spec import item
from tests.support.kubernetes import pods as rules
from tf_malleable.cluster import resource_names
from tf_malleable.cluster.job_spec import parse
from tf_malleable.cluster.kube import objects
from tf_malleable.cluster.kube.objects import NodePlace

PLACE = NodePlace("n", "n.example.com")


@pytest.fixture
def job(tmp_path):
    return parse(item(tmp_path))


def variables(pod):
    return {one["name"]: one for one in pod["spec"]["containers"][0]["env"]}


def test_a_worker_is_the_template_and_what_makes_it_one(job):
    template = copy.deepcopy(dict(job.template))
    template["metadata"] = {
        "labels": {"team": "a", resource_names.ROLE: "king"},
        "annotations": {"x": "y"},
    }
    container = template["spec"]["containers"][0]
    container["env"] = [{"name": "OWN", "value": "1"}, {"name": "TF_MALLEABLE_ELASTIC_HOST"}]
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    zone = {"key": "zone", "operator": "In", "values": ["z"]}
    terms = [{"matchExpressions": [zone]}, {"matchExpressions": []}]
    template["spec"]["affinity"] = {"nodeAffinity": {required: {"nodeSelectorTerms": terms}}}
    sidecar = {"name": "log", "image": "l:1", "resources": {"requests": {"cpu": "100m"}}}
    template["spec"]["containers"].append(sidecar)
    before = copy.deepcopy(template)
    made = objects.worker_pod(replace(job, template=template), 3, PLACE, 2, "10.0.0.1")
    assert template == before
    assert not list(rules.validate(rules.fill(made)))
    assert made["metadata"]["name"] == "t-worker-3"
    labels = made["metadata"]["labels"]
    assert labels == {
        "team": "a",
        resource_names.JOB: "t",
        resource_names.ROLE: "worker",
        resource_names.MEMBER: "3",
    }
    assert made["metadata"]["annotations"] == {"x": "y", resource_names.NODE: "n"}
    owner = made["metadata"]["ownerReferences"][0]
    assert (owner["uid"], owner["controller"]) == ("u", True)
    here = {"key": "kubernetes.io/hostname", "operator": "In", "values": ["n.example.com"]}
    found = made["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"]
    assert found == [{"matchExpressions": [zone, here]}, {"matchExpressions": [here]}]
    # Together its containers request what was granted.
    first, second = made["spec"]["containers"]
    assert first["resources"]["requests"]["cpu"] == first["resources"]["limits"]["cpu"] == "1900m"
    assert first["resources"]["limits"]["memory"] == "64Mi"
    assert second["resources"] == sidecar["resources"]
    assert {"resourceName": "cpu", "restartPolicy": "NotRequired"} in first["resizePolicy"]
    said = variables(made)
    assert said["OWN"]["value"] == "1"
    assert said["TF_MALLEABLE_ELASTIC_COORDINATOR"]["value"] == "10.0.0.1:7070"
    key = said["TF_MALLEABLE_ELASTIC_SECRET"]["valueFrom"]["secretKeyRef"]
    assert key == {"name": resource_names.secret_name("t", "u"), "key": "token"}
    assert "valueFrom" in said["TF_MALLEABLE_ELASTIC_HOST"]
    assert "nodeName" not in made["spec"]


def test_pods_of_ours_may_run_where_restricted_ones_may(job):
    template = copy.deepcopy(dict(job.template))
    template["spec"]["tolerations"] = [{"operator": "Exists"}]
    job = replace(job, template=template)
    for made in (
        objects.coordinator_pod(job, 0, PLACE, is_first=True),
        objects.server_pod(job, 0, PLACE, 0.5, "10.0.0.1"),
    ):
        assert not list(rules.validate(rules.fill(made)))
        spec = made["spec"]
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        context = spec["containers"][0]["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert spec["automountServiceAccountToken"] is False
        assert spec["tolerations"] == [{"operator": "Exists"}]


def with_spec(job, **more):
    """Return a job whose template's spec has more fields."""
    template = {**job.template, "spec": {**job.template["spec"], **more}}
    return replace(job, template=template)


def test_no_worker_is_the_first_process_of_a_pid_namespace(job):
    def shares(job):
        made = objects.worker_pod(job, 0, PLACE, 1, "10.0.0.1")
        return made["spec"].get("shareProcessNamespace")

    sidecar = {"name": "log", "image": "l:1"}
    (container,) = job.template["spec"]["containers"]
    assert shares(job) is True
    assert shares(with_spec(job, initContainers=[sidecar])) is True
    # Unless others would then see its processes, or the user says something else.
    assert shares(with_spec(job, containers=[container, sidecar])) is None
    lasting = {**sidecar, "restartPolicy": "Always"}
    assert shares(with_spec(job, initContainers=[lasting])) is None
    assert shares(with_spec(job, hostPID=True)) is None
    assert shares(with_spec(job, shareProcessNamespace=False)) is False
    assert objects.coordinator_pod(job, 0, PLACE, is_first=True)["spec"]["shareProcessNamespace"]
    assert objects.server_pod(job, 0, PLACE, 1, "10.0.0.1")["spec"]["shareProcessNamespace"]


def test_a_coordinator_knows_whether_there_is_anybody_to_wait_for(job):
    first = objects.coordinator_pod(job, 0, PLACE, is_first=True)["spec"]["containers"][0][
        "command"
    ]
    later = objects.coordinator_pod(job, 1, PLACE, is_first=False)["spec"]["containers"][0][
        "command"
    ]
    assert first[-1] == "--fresh"
    assert later[-1] == "--resume"
    assert later[later.index("--shards") + 1] == "4"


def test_a_token_follows_from_the_key_and_the_uid_alone(job):
    mine = objects.token(b"k" * 32, job)
    assert mine == objects.token(b"k" * 32, replace(job, name="x"))
    assert mine != objects.token(b"k" * 32, replace(job, uid="v"))
    assert mine != objects.token(b"l" * 32, job)
    assert len(bytes.fromhex(mine)) == 32
