# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whole elastic trainings take many minutes: they run only if asked for (make test-elastic)."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ASKED = os.environ.get("TFM_TEST_ELASTIC") == "1"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    skip = pytest.mark.skip(reason="a whole elastic training: make test-elastic")
    for item in items:
        here = item.path.is_relative_to(Path(__file__).parent)
        if here and item.get_closest_marker("slow") and not ASKED:
            item.add_marker(skip)
