# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller for each test that wants one, and none for the others."""

from __future__ import annotations

import pytest

from tests.support import controllers
from tests.support.commands import CPU


@pytest.fixture(autouse=True)
def socket(tmp_path, monkeypatch):
    """Where commands look for a controller, so that they never find the machine's own."""
    path = tmp_path / "run" / "controller.sock"
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(path))
    monkeypatch.delenv("TF_MALLEABLE_JOIN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return path


@pytest.fixture
def controller(tmp_path):
    """A controller with one CPU, which one job after the other gets."""
    with controllers.controller(tmp_path, "--cpus", str(CPU), "--policy", "fcfs-strict") as running:
        yield running
