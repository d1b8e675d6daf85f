# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A controller for each test that wants one, and none for the others."""

from __future__ import annotations

import pytest

from tests.support import controllers
from tests.support.commands import CPU
from tests.support.deadline import DEADLINE
from tf_malleable.cli.jobs import control
from tf_malleable.cli.main import tfm

ONE_CPU = ("--cpus", str(CPU), "--policy", "fcfs-strict")


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
    with controllers.controller(tmp_path, *ONE_CPU) as running:
        yield running


@pytest.fixture
def patiently(monkeypatch, capsys):
    """Runs a command that waits for what it has begun as long as that takes, not for a second."""
    monkeypatch.setattr(control, "_PATIENCE_SECONDS", DEADLINE)

    def run(*arguments: str) -> str:
        tfm.main(list(arguments), standalone_mode=False)
        said = capsys.readouterr()
        assert said.err == ""
        return said.out

    return run


@pytest.fixture
def outputs(tmp_path, monkeypatch):
    """The folder of output files of tfm submit, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "tf_malleable" / "output"


@pytest.fixture
def start(tmp_path):
    """Starts a controller that takes over the jobs of the one before."""
    begun: list[controllers.Controller] = []

    def begin(**more) -> controllers.Controller:
        begun.append(controllers.Controller(tmp_path, *ONE_CPU, **more))
        return begun[-1]

    yield begin
    for each in begun:
        each.process.kill()
        each.process.communicate(timeout=DEADLINE)
