# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
from __future__ import annotations

import pytest

from tests.support import trivial_plan
from tests.support.kubernetes.cluster import Cluster
from tests.support.operators import Site
from tf_malleable.cluster import deciding


@pytest.fixture(autouse=True)
def plan(monkeypatch):
    monkeypatch.setattr(deciding, "make_plan", trivial_plan.plan)


@pytest.fixture
def site(tmp_path):
    with Cluster(tmp_path) as cluster:
        found = Site(cluster, tmp_path)
        yield found
        found.close()
