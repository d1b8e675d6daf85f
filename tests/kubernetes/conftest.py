# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

import pytest

from tests.support.kubernetes.api import Api
from tests.support.kubernetes.client import Client
from tests.support.kubernetes.cluster import Cluster
from tests.support.kubernetes.server import Server


@pytest.fixture
def api() -> Api:
    return Api()


@pytest.fixture
def client(api) -> Client:
    return Client(api)


@pytest.fixture
def server(api):
    server = Server(api)
    yield server
    server.close()


@pytest.fixture
def cluster(tmp_path):
    with Cluster(tmp_path) as cluster:
        yield cluster
