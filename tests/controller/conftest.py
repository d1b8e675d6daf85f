# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What several of these tests begin with."""

from __future__ import annotations

import grp
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest


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


@pytest.fixture
def state(tmp_path):
    """A state file that is not there yet."""
    return tmp_path / "state.db"
