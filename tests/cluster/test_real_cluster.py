# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The client for real clusters does what the fake's own does; here by HTTP, on the fake."""

from __future__ import annotations

import pytest

from tests.support.kubernetes.examples import config
from tests.support.kubernetes.refusals import RefusedError
from tests.support.real_cluster import IS_REAL, RealClient


@pytest.fixture
def by_http(tmp_path, monkeypatch, request):
    if IS_REAL:
        yield request.getfixturevalue("real")
        return
    from tests.support.kubernetes.cluster import Cluster

    with Cluster(tmp_path) as cluster:
        monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig()))
        client = RealClient()
        yield client
        client.close()


def test_objects_are_written_and_read_in_a_namespace_of_its_own(by_http):
    made = by_http.create(config())
    assert made["metadata"]["namespace"] == by_http.namespace
    assert by_http.patch("configmaps", "one", {"data": {"b": "2"}})["data"] == {"a": "1", "b": "2"}
    by_http.apply({**config(), "data": {"c": "3"}})
    found = by_http.get("configmaps", "one")
    assert found["data"] == {"a": "1", "b": "2", "c": "3"}
    by_http.replace({**found, "data": {"d": "4"}})
    assert "one" in [one["metadata"]["name"] for one in by_http.list("configmaps", "default")]
    by_http.delete("configmaps", "one")
    assert by_http.find("configmaps", "one") is None


def test_refusals_are_those_of_the_server(by_http):
    by_http.create(config("two"))
    with pytest.raises(RefusedError) as refused:
        by_http.create(config("two"))
    assert (refused.value.code, refused.value.reason) == (409, "AlreadyExists")
    with pytest.raises(RefusedError) as refused:
        by_http.create(config("no name"))
    assert [one["field"] for one in refused.value.details["causes"]] == ["metadata.name"]
