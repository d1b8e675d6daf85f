# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Keras on its three backends: malleable on TensorFlow and PyTorch, and said not to be on JAX."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support import controllers
from tests.support.commands import started, tfm
from tests.support.controllers import TFM, wait_for
from tests.support.jobs import has_ended
from tests.support.programs import ENDS, check_malleable, job

TRAINING = str(Path(__file__).parent / "cases_keras.py")
OTHERS = {"jax": "JAX"}
pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")


@pytest.fixture
def controller(tmp_path, monkeypatch):
    """A controller of all CPUs."""
    monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(tmp_path / "run" / "controller.sock"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("TF_CPP_MIN_LOG_LEVEL", "3")
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    with controllers.controller(tmp_path, "--policy", "fcfs-strict") as running:
        yield running


@pytest.fixture
def training(controller, request, monkeypatch):
    """A training on a backend, which is the only job."""
    monkeypatch.setenv("KERAS_BACKEND", request.param)
    command = [sys.executable, TRAINING]
    with started("run", "--preferred", "1", "--max", "2", "--", *command) as process:
        yield process


def widths(pid: int) -> set[int]:
    """Return how many CPUs the threads of a process may use."""
    found = set()
    for thread in os.listdir(f"/proc/{pid}/task"):
        with suppress(ProcessLookupError):  # It may end in between.
            found.add(len(os.sched_getaffinity(int(thread))))
    return found


def grants(controller):
    """Yield three numbers of cores, each once it is actual."""
    for cores in (2, 1, 2):
        assert tfm("set", job(controller)["id"], str(cores)).returncode == 0
        wait_for(lambda n=cores: len(job(controller)["actual"]) == n, ENDS)
        yield cores


def end(controller, process):
    """End a training as a terminal does."""
    process.send_signal(signal.SIGINT)
    process.wait(ENDS)
    wait_for(lambda: has_ended(process.pid), ENDS)
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])


@pytest.mark.parametrize("training", ["tensorflow"], indirect=True)
def test_on_tensorflow_it_is_malleable(controller, training):
    assert training.stdout.readline() == "tensorflow 1\n", training.stderr.read()
    for cores in grants(controller):
        assert training.stdout.readline() == f"tensorflow {cores}\n"
    check_malleable(controller)
    end(controller, training)


@pytest.mark.parametrize("training", OTHERS, indirect=True)
def test_on_other_libraries_it_is_said_to_be_confined(controller, training):
    backend = os.environ["KERAS_BACKEND"]
    assert training.stdout.readline() == f"{backend} None\n", training.stderr.read()
    said = wait_for(lambda: job(controller)["confined"], ENDS)
    assert said == (
        f"{OTHERS[backend]} in process {training.pid} is not malleable: it keeps the threads that"
        " it has started with"
    )
    assert not job(controller)["malleable"]
    for cores in grants(controller):
        wait_for(lambda n=cores: widths(training.pid) == {n}, ENDS)
        assert f"{cores} confined" in tfm("jobs").stdout
    assert said in " ".join(tfm("show", job(controller)["id"]).stdout.split())
    end(controller, training)
    _, log = controller.stop()
    assert said in log


def said_by_run(program: str) -> str:
    """Return what `tfm run` says of a program with one thread."""
    command = [TFM, "run", "--threads", "1", "--", sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=ENDS, check=True)
    return done.stderr


@pytest.mark.parametrize("backend", OTHERS)
def test_that_a_limit_does_not_reach_it_is_said(monkeypatch, backend):
    monkeypatch.setenv("KERAS_BACKEND", backend)
    said = said_by_run("import keras")
    assert f"tfm run: --threads 1 does not limit {OTHERS[backend]}" in said
    assert said.count("does not limit") == 1


def test_of_a_library_that_tensorflow_imports_and_does_not_use_nothing_is_said():
    assert "does not limit" not in said_by_run("import keras, sys; assert 'jax' in sys.modules")
