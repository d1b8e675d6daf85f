# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What benchmarks start is not influenced by what the user has set for TensorFlow."""

from __future__ import annotations

import os

import pytest

from benchmarks.common.children import REPOSITORY, clean_environment
from benchmarks.common.configurations import Slot, environment
from benchmarks.common.worker import client

FOREIGN = (
    "LD_PRELOAD",
    "OMP_NUM_THREADS",
    "PYTHONPATH",
    "TF_MALLEABLE_JOIN",
    "TF_NUM_INTEROP_THREADS",
    "TF_USE_LEGACY_KERAS",
    "XDG_RUNTIME_DIR",
    "XLA_FLAGS",
)


@pytest.fixture(autouse=True)
def _set_by_the_user(monkeypatch):
    for name in FOREIGN:
        monkeypatch.setenv(name, "1")


def test_the_user_s_variables_for_tensorflow_are_left_out(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")
    found = clean_environment({"OMP_NUM_THREADS": "2"})
    assert {name: found.get(name) for name in FOREIGN if name in found} == {"OMP_NUM_THREADS": "2"}
    assert found["HOME"] == "/home/me"
    assert found["PATH"] == os.environ["PATH"]


def test_trainings_and_workers_have_the_same_environment(monkeypatch):
    started = {}

    def popen(command: object, **options: object) -> None:
        started.update(options)

    monkeypatch.setattr(client.subprocess, "Popen", popen)
    process = client.Process("two threads", ours=False, threads=2)
    client.Worker(process, ())._errors.close()
    assert started["env"] == environment(Slot(environment=process.environment))
    assert started["cwd"] == REPOSITORY
    assert (REPOSITORY / "benchmarks" / "common" / "children.py").is_file()
