# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Server-side apply: who owns what, what is merged, what conflicts."""

from __future__ import annotations

import pytest
import yaml

from tests.support.kubernetes.applying import CONTENT_TYPE
from tests.support.kubernetes.authorization import account
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.examples import CRD, choir, config
from tests.support.kubernetes.refusals import RefusedError
from tests.support.kubernetes.requests import Request


def applied(name: str = "one", **data: str):
    return {**config(name), "data": data}


def refused(call, *arguments, **more):
    with pytest.raises(RefusedError) as found:
        call(*arguments, **more)
    return found.value


def service(*ports: int):
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "one"},
        "spec": {"ports": [{"port": port, "targetPort": port + 1} for port in ports]},
    }


def test_what_is_not_there_is_created(client):
    made = client.apply(applied(a="1"))
    assert made["data"] == {"a": "1"}
    assert client.get("configmaps", "one")["metadata"]["uid"] == made["metadata"]["uid"]


def test_applying_the_same_again_changes_nothing(client):
    made = client.apply(applied(a="1"))
    assert client.apply(applied(a="1")) == made


def test_what_is_applied_no_longer_goes_and_what_is_not_ours_stays(client):
    client.apply(applied(a="1", b="2"))
    client.patch("configmaps", "one", {"data": {"c": "3"}})
    assert client.apply(applied(a="1"))["data"] == {"a": "1", "c": "3"}


def test_what_another_one_applies_too_stays(client):
    client.apply(applied(a="1", b="2"))
    client.apply(applied(b="2"), "others")
    assert client.apply(applied(a="1"))["data"] == {"a": "1", "b": "2"}


def test_another_ones_field_is_a_conflict_unless_forced(client):
    client.apply(applied(a="1"), "others")
    found = refused(client.apply, applied(a="2"))
    assert (found.code, found.reason) == (409, "Conflict")
    assert found.message == 'Apply failed with 1 conflict: conflict with "others": .data.a'
    assert client.get("configmaps", "one")["data"] == {"a": "1"}
    assert client.apply(applied(a="2"), force="true")["data"] == {"a": "2"}
    assert client.apply(applied(a="3"))["data"] == {"a": "3"}  # It is ours now.


def test_what_somebody_has_written_since_is_a_conflict(client):
    client.apply(applied(a="1"))
    client.patch("configmaps", "one", {"data": {"a": "9"}})
    assert ".data.a" in refused(client.apply, applied(a="2")).message
    assert client.apply(applied(a="9"))["data"] == {"a": "9"}  # The same value is none.


def test_lists_with_keys_are_merged_by_them(client):
    client.apply(service(1, 2))
    client.apply(service(3), "others")
    made = client.apply(service(2))
    assert [port["port"] for port in made["spec"]["ports"]] == [2, 3]
    assert made["spec"]["ports"][0]["targetPort"] == 3


def test_a_dry_run_leaves_no_trace(client):
    client.apply(applied(a="1"), dryRun="All")
    assert client.find("configmaps", "one") is None
    client.apply(applied(a="1"))
    client.apply(applied(a="2"), "others", dryRun="All", force="true")
    assert client.apply(applied(a="3"))["data"] == {"a": "3"}


def test_custom_objects_are_validated_and_their_lists_are_values(client):
    client.create(yaml.safe_load(CRD))
    client.apply(choir(singers={"max": 3}))
    assert refused(client.apply, choir(singers={"max": 0})).code == 422
    assert client.apply(choir(singers={"max": 5}))["spec"]["singers"] == {"min": 1, "max": 5}
    client.apply(choir(template={"all": [{"name": "a"}, {"name": "b"}]}))
    made = client.apply(choir(template={"all": [{"name": "b"}]}))
    assert made["spec"]["template"] == {"all": [{"name": "b"}]}


@pytest.mark.parametrize(
    ("body", "manager", "code"),
    [
        (applied(a="1"), "", 422),
        ({**applied(a="1"), "kind": ""}, "tests", 400),
        (applied("other", a="1"), "tests", 400),
        ({**applied(), "metadata": {"name": "one", "managedFields": []}}, "tests", 400),
        ({**applied(), "metadata": {}}, "tests", 400),
    ],
)
def test_what_is_no_apply(api, body, manager, code):
    resource, query = api.catalogue.named("configmaps"), {"fieldManager": manager}
    request = Request(
        "patch", resource, "default", "one", query=query, body=body, content_type=CONTENT_TYPE
    )
    assert refused(api.serve, request).code == code


def test_who_may_not_create_may_not_apply_what_is_not_there(api, client):
    rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["patch"]}
    group = "rbac.authorization.k8s.io"
    role = {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": {"name": "r"}, "rules": [rule]}
    client.create(role)
    client.create(
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": {"name": "r"},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": "r"},
            "subjects": [{"kind": "ServiceAccount", "name": "x", "namespace": "default"}],
        }
    )
    other = Client(api, account("default", "x"))
    assert "cannot create" in refused(other.apply, applied(a="1")).message
    client.create(config())
    other.apply({**applied(b="2")})


def deployment(**pod):
    container = {"name": "a", "image": "a:1", "ports": [{"name": "http", "containerPort": 1}]}
    template = {"metadata": {"labels": {"x": "y"}}, "spec": {"containers": [container], **pod}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "one"},
        "spec": {"selector": {"matchLabels": {"x": "y"}}, "template": template},
    }


def test_deployments_are_kept_and_their_templates_are_validated(client):
    assert client.apply(deployment())["spec"]["replicas"] == 1
    other = deployment()
    other["spec"]["selector"]["matchLabels"] = {"x": "z"}
    assert "does not match" in refused(client.apply, other).message
    assert "restartPolicy" in refused(client.apply, deployment(restartPolicy="Never")).message
    probing = deployment()
    probing["spec"]["template"]["spec"]["containers"][0]["livenessProbe"] = {
        "httpGet": {"path": "/", "port": "other"}
    }
    assert "livenessProbe.httpGet.port" in refused(client.apply, probing).message
