# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fixtures that the conftest.py of more than one folder takes over."""

from __future__ import annotations

import grp
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.support.fake_controller import FakeController


@pytest.fixture
def fake(tmp_path):
    """A controller that does what a test tells it, and is not a real one."""
    with FakeController(tmp_path / "controller.sock") as controller:
        yield controller


@pytest.fixture
def directory() -> Iterator[Path]:
    """A folder that all users may enter."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def group() -> int:
    """Return the id of a group that is not root's."""
    return next(each.gr_gid for each in grp.getgrall() if each.gr_gid not in (0, 65534))
