# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages of controllers of other versions."""

from __future__ import annotations

import msgspec
import pytest

from tests.cli.test_top import job
from tf_malleable.api.schema.messages import JobStatus


@pytest.mark.parametrize("held", [True, False])
def test_an_older_controller_knows_the_older_name_only(held):
    said = msgspec.to_builtins(job(1))
    del said["paused_by_user"]
    assert msgspec.convert({**said, "held": held}, JobStatus).paused_by_user == held
