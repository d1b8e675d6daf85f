# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What several of these tests begin with."""

from __future__ import annotations

import pytest

from tests.support.fixtures import directory as directory
from tests.support.fixtures import group as group


@pytest.fixture
def state(tmp_path):
    """A state file that is not there yet."""
    return tmp_path / "state.db"
