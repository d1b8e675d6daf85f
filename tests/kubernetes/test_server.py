# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The server over HTTP: who may do what, discovery, faults, and its death."""

from __future__ import annotations

import http.client

import pytest
import yaml

from tests.support.controllers import wait_for
from tests.support.kubernetes.api import UnavailableError
from tests.support.kubernetes.authorization import ADMIN, Right, account, unused
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.examples import CRD, ask, choir, config

MAPS = "/api/v1/namespaces/default/configmaps"
ROLES = """
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: reader}
rules:
- {apiGroups: [""], resources: [configmaps], verbs: [get, list], resourceNames: [one]}
- {apiGroups: [""], resources: [configmaps], verbs: [create]}
- {apiGroups: [""], resources: [pods/log, pods], verbs: [get]}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: reader}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: reader}
subjects: [{kind: ServiceAccount, name: worker}]
"""
WORKER = account("default", "worker")


@pytest.fixture
def client(api):
    client = Client(api)
    for item in yaml.safe_load_all(ROLES):
        client.create(item)
    return client


@pytest.fixture
def admin(api):
    return api.authorizer.issue(ADMIN)


@pytest.fixture
def worker(api):
    return api.authorizer.issue(WORKER)


def test_an_unknown_token_is_401(server):
    status, body, _ = ask(server, "GET", MAPS, token="stolen")
    assert (status, body["reason"]) == (401, "Unauthorized")


def test_a_revoked_token_is_401(server, api, admin):
    api.authorizer.revoke(admin)
    assert ask(server, "GET", MAPS, token=admin)[0] == 401


def test_nobody_may_do_nothing(server):
    status, body, _ = ask(server, "GET", MAPS)
    assert (status, body["reason"]) == (403, "Forbidden")
    assert body["message"] == (
        'configmaps is forbidden: User "system:anonymous" cannot list resource "configmaps" '
        'in API group "" in the namespace "default"'
    )


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", f"{MAPS}/one", None, 200),
        ("GET", f"{MAPS}/two", None, 403),
        ("GET", MAPS, None, 403),
        ("POST", MAPS, config("three"), 201),
        ("DELETE", f"{MAPS}/one", None, 403),
        ("GET", "/api/v1/configmaps", None, 403),
        ("GET", "/api/v1/namespaces/kube-system/configmaps/one", None, 403),
        ("GET", "/api/v1/namespaces/default/pods/p/log", None, 404),
        ("PATCH", "/api/v1/namespaces/default/pods/p/status", {}, 403),
        ("POST", "/api/v1/namespaces/default/pods/p/eviction", {}, 403),
        ("GET", "/api/v1/nodes", None, 403),
    ],
)
def test_roles_hold(server, client, worker, method, path, body, code):
    for name in ("one", "two"):
        client.create(config(name))
    assert ask(server, method, path, body, token=worker)[0] == code


def test_calls_are_noted_and_rights_that_nobody_used(server, client, api, worker):
    client.create(config())
    ask(server, "GET", f"{MAPS}/one", token=worker)
    ask(server, "POST", MAPS, config("two"), token=worker)
    calls = [call for call in api.calls if call.user == WORKER.name]
    assert [(call.verb, call.resource, call.name) for call in calls] == [
        ("get", "configmaps", "one"),
        ("create", "configmaps", ""),
    ]
    rules = client.get("roles", "reader")["rules"]
    assert unused(rules, calls) == [
        Right("list", "", "configmaps", ("one",)),
        Right("get", "", "pods/log"),
        Right("get", "", "pods"),
    ]


def test_discovery(server, client, admin, worker):
    client.create(yaml.safe_load(CRD))
    groups = ask(server, "GET", "/apis", token=worker)[1]["groups"]
    assert {"policy", "coordination.k8s.io", "example.com"} <= {one["name"] for one in groups}
    listed = ask(server, "GET", "/apis/example.com/v1", token=worker)[1]["resources"]
    assert [one["name"] for one in listed] == ["choirs", "choirs/status", "choirs/scale"]
    assert listed[0]["shortNames"] == ["ch"]
    core = ask(server, "GET", "/api/v1", token=admin)[1]["resources"]
    assert {"pods/resize", "pods/eviction", "pods/binding"} <= {one["name"] for one in core}
    assert ask(server, "GET", "/version", token=admin)[1]["minor"] == "35"
    assert ask(server, "GET", "/apis", token=None)[0] == 403
    assert ask(server, "GET", "/healthz")[:2] == (200, "ok")


def test_a_definition_that_goes_takes_its_paths_along(server, client, admin):
    path = "/apis/example.com/v1/choirs"
    assert ask(server, "GET", path, token=admin)[0] == 404
    client.create(yaml.safe_load(CRD))
    assert ask(server, "GET", path, token=admin)[0] == 200
    gone = [{"op": "remove", "path": "/metadata/finalizers"}]
    client.delete("customresourcedefinitions", "choirs.example.com")
    client.patch("customresourcedefinitions", "choirs.example.com", gone)
    assert ask(server, "GET", path, token=admin)[0] == 404


@pytest.mark.parametrize(
    ("method", "path", "code"),
    [
        ("GET", "/api/v1/namespaces/default/deployments", 404),
        ("GET", "/api/v1/namespaces/default/configmaps/one/scale", 404),
        ("GET", "/api/v1/pods/p", 404),
        ("GET", "/nowhere", 404),
        ("PUT", MAPS, 405),
        ("POST", f"{MAPS}/one", 405),
        ("DELETE", "/api/v1/namespaces/default/pods/p/status", 405),
        ("GET", "/api/v1/namespaces/default/pods/p/eviction", 405),
        ("POST", "/api/v1/pods", 405),
    ],
)
def test_paths_and_methods_that_are_not_there(server, admin, method, path, code):
    assert ask(server, method, path, {}, token=admin)[0] == code


def test_bodies_that_are_not_understood(server, client, admin):
    assert ask(server, "POST", MAPS, [1], token=admin)[0] == 400
    client.create(config())
    kind = "application/x-patch"
    status, body, _ = ask(server, "PATCH", f"{MAPS}/one", {}, token=admin, content_type=kind)
    assert (status, body["reason"]) == (415, "UnsupportedMediaType")


def test_unknown_fields_are_warned_of_in_a_header(server, client, admin):
    client.create(yaml.safe_load(CRD))
    path = "/apis/example.com/v1/namespaces/default/choirs"
    status, _, headers = ask(server, "POST", path, choir(tempo=3), token=admin)
    assert status == 201
    assert headers["Warning"] == '299 - "unknown field \\"spec.tempo\\""'


def test_a_dry_run_changes_nothing(server, client, admin):
    assert ask(server, "POST", f"{MAPS}?dryRun=All", config(), token=admin)[0] == 201
    assert client.list("configmaps") == []
    client.create(config())
    ask(server, "DELETE", f"{MAPS}/one?dryRun=All", token=admin)
    assert client.get("configmaps", "one")


def test_all_of_a_collection_can_be_deleted(server, client, admin):
    for name in ("a", "b"):
        client.create(config(name, labels={"l": name}))
    ask(server, "DELETE", f"{MAPS}?labelSelector=l%3Da", token=admin)
    assert [item["metadata"]["name"] for item in client.list("configmaps")] == ["b"]


@pytest.mark.parametrize("code", [401, 409, 410, 429, 500, 503])
def test_any_call_can_be_refused(server, admin, code):
    fault = server.faults.inject(code, verb="list", resource="configmaps", skip=1, times=2)
    codes = [ask(server, "GET", MAPS, token=admin)[0] for _ in range(4)]
    assert codes == [200, code, code, 200]
    assert fault.met == 2
    assert ask(server, "GET", f"{MAPS}/one", token=admin)[0] == 404


def test_too_many_requests_says_when_to_come_back(server, admin):
    server.faults.inject(429)
    status, body, headers = ask(server, "GET", MAPS, token=admin)
    assert (status, headers["Retry-After"], body["details"]) == (429, "1", {"retryAfterSeconds": 1})


def test_an_answer_can_be_lost_after_what_it_is_about_was_done(server, client, admin):
    server.faults.inject("lose", verb="create")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(server, "POST", MAPS, config(), token=admin)
    assert client.get("configmaps", "one")
    server.faults.inject("drop", verb="create")
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        ask(server, "POST", MAPS, config("two"), token=admin)
    assert client.find("configmaps", "two") is None


def test_a_call_can_hang(server, admin):
    fault = server.faults.inject("hang")
    host = server.url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=0.2)
    connection.request("GET", MAPS, headers={"Authorization": f"Bearer {admin}"})
    with pytest.raises(TimeoutError):
        connection.getresponse()
    wait_for(lambda: fault.met)  # Or the next call would hang.
    connection.close()
    assert ask(server, "GET", MAPS, token=admin)[0] == 200


def test_a_server_that_was_killed_knows_all_again(server, client, admin):
    made = client.create(config())
    url = server.url
    server.kill()
    with pytest.raises(ConnectionError):
        ask(server, "GET", MAPS, token=admin)
    with pytest.raises(UnavailableError):
        client.get("configmaps", "one")
    server.start()
    assert server.url == url
    assert ask(server, "GET", f"{MAPS}/one", token=admin)[1] == made
