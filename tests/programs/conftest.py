# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller of all CPUs for each test that wants one, and none for the others."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support import controllers

APPS = Path(__file__).parent / "apps"


@pytest.fixture(autouse=True)
def socket(tmp_path, monkeypatch):
    """Where commands look for a controller, so that they never find the machine's own."""
    path = tmp_path / "run" / "controller.sock"
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(path))
    monkeypatch.delenv("TF_MALLEABLE_JOIN", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    return path


@pytest.fixture
def controller(tmp_path):
    with controllers.controller(tmp_path, "--policy", "fcfs-strict") as running:
        yield running


@pytest.fixture
def app(tmp_path, monkeypatch):
    """A folder with the applications, which is also the working directory."""
    folder = tmp_path / "app"
    shutil.copytree(APPS, folder)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TASKS_FOLDER", str(folder))
    return folder
