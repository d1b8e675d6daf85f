# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Deletions that follow others."""

from __future__ import annotations

import pytest
import yaml

from tests.support.controllers import wait_for
from tests.support.kubernetes.examples import CRD, choir, config
from tests.support.kubernetes.refusals import RefusedError


def owned(name, *owners, **metadata):
    references = [
        {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["metadata"]["name"],
            "uid": owner["metadata"]["uid"],
        }
        for owner in owners
    ]
    return config(name, ownerReferences=references, **metadata)


def test_what_is_owned_goes_with_the_last_of_its_owners(cluster):
    first, second = (cluster.client.create(config(name)) for name in ("first", "second"))
    cluster.client.create(owned("one", first))
    cluster.client.create(owned("both", first, second))
    cluster.client.create(owned("below", cluster.client.get("configmaps", "one")))
    cluster.client.delete("configmaps", "first")
    wait_for(lambda: cluster.client.find("configmaps", "below") is None)
    assert cluster.client.find("configmaps", "one") is None
    assert cluster.client.find("configmaps", "both")
    cluster.client.delete("configmaps", "second")
    wait_for(lambda: cluster.client.find("configmaps", "both") is None)


def test_an_owner_in_another_namespace_is_none(cluster):
    first = cluster.client.create(config("first"))
    cluster.client.create(owned("one", first), "kube-system")
    wait_for(lambda: cluster.client.find("configmaps", "one", "kube-system") is None)


def test_in_the_foreground_the_owner_goes_last(cluster):
    first = cluster.client.create(config("first"))
    cluster.client.create(owned("one", first, finalizers=["a.b/c"]))
    cluster.client.delete("configmaps", "first", propagationPolicy="Foreground")
    wait_for(lambda: "deletionTimestamp" in cluster.client.get("configmaps", "one")["metadata"])
    held = cluster.client.get("configmaps", "first")["metadata"]
    assert held["finalizers"] == ["foregroundDeletion"]
    cluster.client.patch("configmaps", "one", {"metadata": {"finalizers": None}})
    wait_for(lambda: cluster.client.find("configmaps", "first") is None)


def test_orphans_stay_without_their_owner(cluster):
    first = cluster.client.create(config("first"))
    cluster.client.create(owned("one", first))
    cluster.client.delete("configmaps", "first", propagationPolicy="Orphan")
    wait_for(lambda: cluster.client.find("configmaps", "first") is None)
    assert "ownerReferences" not in cluster.client.get("configmaps", "one")["metadata"]


def test_a_namespace_goes_after_all_that_is_in_it(cluster):
    cluster.apply("{apiVersion: v1, kind: Namespace, metadata: {name: town}}")
    cluster.client.create(config("one", finalizers=["a.b/c"]), "town")
    cluster.client.create(config("two"), "town")
    cluster.client.delete("namespaces", "town")
    wait_for(lambda: cluster.client.find("configmaps", "two", "town") is None)
    assert cluster.client.get("namespaces", "town")["status"]["phase"] == "Terminating"
    with pytest.raises(RefusedError, match="because it is being terminated") as refused:
        cluster.client.create(config("three"), "town")
    assert refused.value.details["causes"][0]["reason"] == "NamespaceTerminating"
    cluster.client.patch("configmaps", "one", {"metadata": {"finalizers": None}}, "town")
    wait_for(lambda: cluster.client.find("namespaces", "town") is None)


def test_a_definition_goes_after_all_that_it_defines(cluster):
    cluster.client.create(yaml.safe_load(CRD))
    item = choir()
    item["metadata"]["finalizers"] = ["a.b/c"]
    cluster.client.create(item)
    cluster.client.delete("customresourcedefinitions", "choirs.example.com")
    wait_for(lambda: "deletionTimestamp" in cluster.client.get("choirs", "one")["metadata"])
    cluster.client.patch("choirs", "one", {"metadata": {"finalizers": None}})
    wait_for(lambda: cluster.client.find("customresourcedefinitions", "choirs.example.com") is None)
    with pytest.raises(KeyError):
        cluster.client.get("choirs", "one")
