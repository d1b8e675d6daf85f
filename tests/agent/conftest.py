# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A fake controller for each test."""

from __future__ import annotations

import pytest
from fake_controller import FakeController


@pytest.fixture
def fake(tmp_path):
    with FakeController(tmp_path / "controller.sock") as controller:
        yield controller
