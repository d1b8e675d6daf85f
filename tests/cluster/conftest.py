# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

import os

import pytest
import yaml

from tests.support import ROOT
from tests.support.kubernetes.api import Api
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.cluster import Cluster
from tests.support.operators import Site, wait_until
from tests.support.real_cluster import IS_REAL, RealClient
from tests.support.real_site import RealSite


@pytest.fixture(scope="session")
def real():
    """A client of the cluster of KUBECONFIG under make test-cluster; else None."""
    client = RealClient() if IS_REAL else None
    yield client
    if client is not None:
        client.close()


@pytest.fixture
def client(real):
    """A client of a cluster that knows MalleableJobs: of a fake one, or of that of KUBECONFIG."""
    client = real or Client(Api())
    crd = yaml.safe_load((ROOT / "deploy/kubernetes/base/crd.yaml").read_text())
    client.apply(crd, force="true")

    def established() -> bool:
        found = client.get("customresourcedefinitions", crd["metadata"]["name"])
        # None right after the definition's creation.
        conditions = found.get("status", {}).get("conditions") or ()
        return any((one["type"], one["status"]) == ("Established", "True") for one in conditions)

    wait_until(established, lambda: "the definition of MalleableJob is not established")
    yield client
    if real is not None:
        for item in client.list("malleablejobs", "default"):
            client.delete("malleablejobs", item["metadata"]["name"])


@pytest.fixture
def site(tmp_path, request):
    """A cluster with an operator to start and jobs: a fake one, or that of KUBECONFIG."""
    if IS_REAL:
        yield from real_site(tmp_path, request)
        return
    with Cluster(tmp_path) as cluster:
        found = Site(cluster, tmp_path)
        yield found
        found.close()


def real_site(tmp_path, request):
    mark = request.node.get_closest_marker("fake")
    if mark is not None:
        pytest.skip(f"it {mark.args[0]}")
    image = os.environ.get("TFM_TEST_IMAGE")
    if not image:
        pytest.skip("needs TFM_TEST_IMAGE, an image that the nodes can pull")
    client = request.getfixturevalue("real")
    request.getfixturevalue("client")
    found = RealSite(client, image, tmp_path)
    yield found
    found.close()
