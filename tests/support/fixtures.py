# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fixtures that the conftest.py of more than one folder takes over."""

from __future__ import annotations

import pytest

from tests.support.fake_controller import FakeController


@pytest.fixture
def fake(tmp_path):
    """A controller that does what a test tells it, and is not a real one."""
    with FakeController(tmp_path / "controller.sock") as controller:
        yield controller
