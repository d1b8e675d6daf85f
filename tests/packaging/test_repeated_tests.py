# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tests are repeated beside a load, and each one is timed, computing and waiting."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).parent.parent.parent / "tools"
TESTS = """
import time
from pathlib import Path

def test_the_second_time_it_fails():
    count = Path(__file__).with_suffix(".count")
    with open(count, "a") as file:
        file.write("x")
    assert len(count.read_text()) != 2

def test_waits():
    time.sleep(0.6)

def test_computes():
    end = time.process_time() + 0.5
    while time.process_time() < end:
        pass
"""


def run(tool: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOLS / tool), *map(str, arguments)], capture_output=True, text=True
    )


@pytest.mark.slow
def test_a_test_that_fails_at_times_is_found(tmp_path):
    tests = tmp_path / "test_it.py"
    tests.write_text(TESTS)
    options = ("-p", "no:cacheprovider", "-c", "/dev/null", "--rootdir", tmp_path)
    out = tmp_path / "out"
    done = run("repeat_tests.py", "--rounds", 3, "--load", 1, "--out", out, "--", tests, *options)
    assert done.returncode == 1, done.stderr
    assert "2 of 3 rounds passed" in done.stdout
    assert "1 × test_it.test_the_second_time_it_fails" in done.stdout

    times = {
        line["test"].rpartition("::")[2]: line
        for line in map(json.loads, (out / "1.jsonl").read_text().splitlines())
    }
    assert times["test_waits"]["cpu"] < 0.5 < times["test_waits"]["seconds"]
    assert times["test_computes"]["cpu"] >= 0.5

    shown = run("test_times.py", out / "1.jsonl", "--slowest", 1).stdout.splitlines()
    assert shown[0].split() == ["seconds", "CPU", "waiting", "tests"]
    assert len(shown) == 5


def test_a_file_that_holds_no_times_is_refused(tmp_path):
    (tmp_path / "times").write_text("[]")
    done = run("test_times.py", tmp_path / "times")
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert done.stderr.startswith("test_times: cannot read ")


@pytest.mark.slow
def test_tests_that_pytest_does_not_know_are_no_failures(tmp_path):
    done = run("repeat_tests.py", "--rounds", 1, "--out", tmp_path, "--", "--no-such-option")
    assert done.returncode == 1
    assert "pytest ended with 4" in done.stderr
