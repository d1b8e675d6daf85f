# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""An S3 server with a tier in front of it."""

from __future__ import annotations

import pytest

from tests.support.object_storage import program, storage, tier_of
from tests.support.tiers import end


@pytest.fixture
def s3(tmp_path):
    with storage(tmp_path) as found:
        yield found


@pytest.fixture
def node(tmp_path, s3):
    found = tier_of(s3, tmp_path / "node")
    yield found.start()
    end(found)


@pytest.fixture
def reader(node):
    with program(node) as found:
        yield found
