# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What holds for objects of every kind: versions, identities, deletions, what is refused."""

from __future__ import annotations

import base64

import pytest
import yaml

from tests.support.kubernetes.examples import CRD, choir, config, pod
from tests.support.kubernetes.refusals import RefusedError


def refused(call, *arguments, **more):
    with pytest.raises(RefusedError) as found:
        call(*arguments, **more)
    return found.value


def version(item):
    return int(item["metadata"]["resourceVersion"])


def test_each_change_has_a_version_of_its_own_and_no_change_has_none(client):
    first = client.create(config("a"))
    second = client.create(config("b"))
    changed = client.patch("configmaps", "a", {"data": {"a": "2"}})
    assert version(first) < version(second) < version(changed)
    assert client.patch("configmaps", "a", {"data": {"a": "2"}}) == changed


def test_a_write_of_an_old_version_is_a_conflict(client):
    old = client.create(config())
    client.patch("configmaps", "one", {"data": {"a": "2"}})
    found = refused(client.replace, {**old, "data": {}})
    assert (found.code, found.reason) == (409, "Conflict")
    assert found.status()["details"] == {"name": "one", "kind": "configmaps"}
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "data": {}}
    assert refused(client.patch, "configmaps", "one", stale).code == 409


def test_another_object_of_the_same_name_is_a_conflict(client):
    old = client.create(config())
    client.delete("configmaps", "one")
    client.create(config())
    same = {"metadata": {"uid": old["metadata"]["uid"]}}
    assert "Precondition failed: UID" in refused(client.patch, "configmaps", "one", same).message
    options = {"preconditions": {"uid": old["metadata"]["uid"]}}
    assert refused(client.delete, "configmaps", "one", **options).code == 409


def test_names_are_taken_once(client):
    client.create(config())
    found = refused(client.create, config())
    assert (found.code, found.reason) == (409, "AlreadyExists")
    assert found.message == 'configmaps "one" already exists'


def test_names_can_be_generated(client):
    item = config()
    item["metadata"] = {"generateName": "a-"}
    names = {client.create(item)["metadata"]["name"] for _ in range(5)}
    assert len(names) == 5
    assert all(name.startswith("a-") and len(name) == 7 for name in names)


@pytest.mark.parametrize("verb", ["get", "delete"])
def test_what_is_not_there_is_404(client, verb):
    found = refused(getattr(client, verb), "pods", "none")
    assert (found.code, found.reason) == (404, "NotFound")
    assert found.message == 'pods "none" not found'
    assert found.status()["details"] == {"name": "none", "kind": "pods"}


def test_a_namespace_must_be_there(client):
    found = refused(client.create, config(), "nowhere")
    assert found.message == 'namespaces "nowhere" not found'


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        ({"name": "Upper"}, "metadata.name"),
        ({"name": ""}, "metadata.name"),
        ({"labels": {"a": "not a value"}}, "metadata.labels"),
        ({"labels": {"a": 1}}, "metadata.labels.a"),
        ({"annotations": {"a": 1}}, "metadata.annotations.a"),
        ({"finalizers": ["plain"]}, "metadata.finalizers[0]"),
        ({"ownerReferences": [{"kind": "K", "name": "n", "apiVersion": "v1"}]}, None),
    ],
)
def test_metadata_that_is_refused(client, metadata, field):
    item = config()
    item["metadata"].update(metadata)
    found = refused(client.create, item)
    assert (found.code, found.reason) == (422, "Invalid")
    wanted = field or "metadata.ownerReferences[0].uid"
    assert wanted in [cause["field"] for cause in found.details["causes"]]


def test_what_the_server_sets_cannot_be_set(client):
    made = client.create({**config(), "metadata": {"name": "one", "uid": "mine"}})
    assert made["metadata"]["uid"] != "mine"
    change = {"metadata": {"creationTimestamp": "2000-01-01T00:00:00Z", "labels": {"a": "b"}}}
    changed = client.patch("configmaps", "one", change)
    assert changed["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    item = config("two", resourceVersion="5")
    assert refused(client.create, item).message.startswith("resourceVersion should not be set")


def test_bodies_must_be_of_the_path_they_are_sent_to(client):
    client.create(config())
    for change, why in (
        ({"kind": "Secret"}, 'no kind "Secret"'),
        ({"apiVersion": "v2"}, "does not match the expected API version"),
        ({"metadata": {"name": "two"}}, "does not match the name on the URL"),
        ({"metadata": {"namespace": "kube-system"}}, "does not match the namespace"),
    ):
        found = refused(client.patch, "configmaps", "one", change)
        assert found.code == 400
        assert why in found.message


def test_a_finalizer_holds_what_is_deleted(client):
    client.create(config(finalizers=["example.com/a", "example.com/b"]))
    held = client.delete("configmaps", "one")
    assert held["metadata"]["deletionTimestamp"]
    more = {"metadata": {"finalizers": ["example.com/a", "example.com/c"]}}
    found = refused(client.patch, "configmaps", "one", more)
    assert "no new finalizers can be added" in found.message
    client.patch("configmaps", "one", {"metadata": {"finalizers": ["example.com/b"]}})
    assert client.find("configmaps", "one")
    client.patch("configmaps", "one", {"metadata": {"finalizers": None}})
    assert client.find("configmaps", "one") is None


def test_a_deletion_answers_as_servers_do(client):
    client.create(config())
    status = client.delete("configmaps", "one")
    assert (status["kind"], status["status"]) == ("Status", "Success")
    client.create(pod())
    assert client.delete("pods", "one")["kind"] == "Pod"


def test_a_pod_on_no_node_needs_no_grace(client):
    client.create(pod())
    client.delete("pods", "one")
    assert client.find("pods", "one") is None


def test_a_pod_on_a_node_has_its_grace_which_can_only_shrink(client):
    client.create(pod(nodeName="somewhere"))
    first = client.delete("pods", "one")["metadata"]
    assert first["deletionGracePeriodSeconds"] == 30
    shorter = client.delete("pods", "one", gracePeriodSeconds=5)["metadata"]
    assert shorter["deletionGracePeriodSeconds"] == 5
    assert shorter["deletionTimestamp"] < first["deletionTimestamp"]
    longer = client.delete("pods", "one", gracePeriodSeconds=60)["metadata"]
    assert longer["deletionGracePeriodSeconds"] == 5
    client.delete("pods", "one", gracePeriodSeconds=0)
    assert client.find("pods", "one") is None


def test_generation_counts_changes_of_the_spec_only(client):
    client.create(yaml.safe_load(CRD))

    def generation(change, part=""):
        return client.patch("choirs", "one", change, part=part)["metadata"]["generation"]

    assert client.create(choir())["metadata"]["generation"] == 1
    assert generation({"metadata": {"labels": {"a": "b"}}}) == 1
    assert generation({"status": {"singers": 2}}, "status") == 1
    assert generation({"spec": {"suspend": True}}) == 2
    assert generation({"spec": {"suspend": True}}) == 2
    assert generation({"metadata": {"finalizers": ["a.b/c"]}}) == 2
    assert client.delete("choirs", "one")["metadata"]["generation"] == 3


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"restartPolicy": "Sometimes"}, "spec.restartPolicy"),
        ({"containers": []}, "spec.containers"),
        ({"initContainers": [{}]}, "spec.initContainers"),
        ({"terminationGracePeriodSeconds": -1}, "spec.terminationGracePeriodSeconds"),
        ({"affinity": {"podAffinity": {}}}, "spec.affinity.podAffinity"),
    ],
)
def test_pods_that_are_refused(client, change, field):
    found = refused(client.create, pod(**change))
    assert found.code == 422
    assert [cause["field"] for cause in found.details["causes"]] == [field]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"name": "A"}, "name"),
        ({"image": ""}, "image"),
        ({"env": [{"name": "A", "value": 1}]}, "env[0].value"),
        ({"livenessProbe": {}}, "livenessProbe"),
        (
            {"resizePolicy": [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]},
            "resizePolicy",
        ),
        ({"resources": {"limits": {"cpu": "much"}}}, "resources.limits.cpu"),
        ({"resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}}, "resources.requests"),
    ],
)
def test_containers_that_are_refused(client, change, field):
    item = pod()
    item["spec"]["containers"][0].update(change)
    found = refused(client.create, item)
    assert f"spec.containers[0].{field}" in [one["field"] for one in found.details["causes"]]


def test_pods_have_their_defaults(client):
    made = client.create(pod(cpus="0.5"))
    container = made["spec"]["containers"][0]
    assert container["resources"]["requests"] == {"cpu": "500m", "memory": "64Mi"}
    assert made["status"] == {"phase": "Pending", "qosClass": "Guaranteed"}
    keys = [one["key"] for one in made["spec"]["tolerations"]]
    assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert {one["resourceName"] for one in container["resizePolicy"]} == {"cpu", "memory"}


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    ],
)
def test_quality_of_service(client, resources, quality):
    item = pod()
    item["spec"]["containers"][0]["resources"] = resources
    assert client.create(item)["status"]["qosClass"] == quality


def test_of_a_pod_that_is_there_little_may_change(client):
    client.create(pod())
    image = [{"op": "replace", "path": "/spec/containers/0/image", "value": "shell:2"}]
    assert client.patch("pods", "one", image)["metadata"]["generation"] == 2
    for path, value in (
        ("/spec/containers/0/resources/limits/cpu", "2"),
        ("/spec/nodeName", "n"),
        ("/spec/nodeSelector", {"a": "b"}),
    ):
        found = refused(client.patch, "pods", "one", [{"op": "add", "path": path, "value": value}])
        assert "pod updates may not change fields other than" in found.message
    extra = {"op": "add", "path": "/spec/tolerations/-", "value": {"operator": "Exists"}}
    client.patch("pods", "one", [extra])


def test_status_and_the_rest_are_written_apart(client):
    made = client.create({**pod(), "status": {"phase": "Running"}})
    assert made["status"]["phase"] == "Pending"
    assert client.patch("pods", "one", {"status": {"phase": "Failed"}})["status"] == made["status"]
    change = {"status": {"phase": "Running"}, "spec": {"nodeName": "n"}}
    changed = client.patch("pods", "one", change, part="status")
    assert changed["status"]["phase"] == "Running"
    assert "nodeName" not in changed["spec"]


def test_secrets_are_kept_in_base64(client):
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}}
    made = client.create({**secret, "stringData": {"token": "x"}})
    assert base64.b64decode(made["data"]["token"]) == b"x"
    assert made["type"] == "Opaque"
    bad = {**secret, "metadata": {"name": "t"}, "data": {"token": "not base64"}}
    assert refused(client.create, bad).code == 400


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ({"leaseDurationSeconds": 0}, 422),
        ({"leaseTransitions": -1}, 422),
        ({"renewTime": "now"}, 400),
        ({"renewTime": "2026-01-02T03:04:05.123456Z", "leaseDurationSeconds": 15}, None),
    ],
)
def test_leases(client, spec, code):
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "l"}}
    if code is None:
        assert client.create({**lease, "spec": spec})["spec"] == spec
    else:
        assert refused(client.create, {**lease, "spec": spec}).code == code


def test_events_are_in_the_namespace_of_what_they_are_about(client):
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"generateName": "e-"}}
    client.create({**event, "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"}})
    about = {"kind": "Pod", "name": "p", "namespace": "kube-system"}
    found = refused(client.create, {**event, "involvedObject": about})
    assert found.details["causes"][0]["field"] == "involvedObject.namespace"


def test_services_have_addresses_of_their_own(client):
    service = {"apiVersion": "v1", "kind": "Service", "spec": {"ports": [{"port": 80}]}}
    first = client.create({**service, "metadata": {"name": "a"}})["spec"]
    second = client.create({**service, "metadata": {"name": "b"}})["spec"]
    assert first["clusterIP"] != second["clusterIP"]
    assert first["ports"][0]["targetPort"] == 80
    assert (
        refused(
            client.create, {**service, "metadata": {"name": "c"}, "spec": {"ports": []}}
        ).details["causes"][0]["field"]
        == "spec.ports"
    )


def test_a_pod_needs_its_service_account(client):
    found = refused(client.create, pod(serviceAccountName="nobody"))
    assert (found.code, found.reason) == (403, "Forbidden")
    account = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "nobody"}}
    client.create(account)
    client.create(pod(serviceAccountName="nobody"))
