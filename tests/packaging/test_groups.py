# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tests that share an engine or a build run on one worker, as their marker asks."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_MODULE = """
import os, time
import pytest

@pytest.mark.xdist_group("together")
@pytest.mark.parametrize("number", range(6))
def test_one(number):
    time.sleep(0.05)
    with open("workers", "a") as file:
        print(os.environ["PYTEST_XDIST_WORKER"], file=file)
"""


@pytest.mark.slow
def test_a_group_runs_on_one_worker(tmp_path):
    (tmp_path / "test_group.py").write_text(_MODULE)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-n", "2", "--dist", "loadgroup"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    workers = (tmp_path / "workers").read_text().split()
    assert len(workers) == 6
    assert len(set(workers)) == 1
