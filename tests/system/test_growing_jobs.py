# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A job that a controller starts on one core uses more of them as soon as it has them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.support import harness
from tests.support.controllers import TFM, controller, wait_for

CASES = harness.CASES
# As a training does, it imports TensorFlow first, and uses it at once.
PROGRAM = """
import json
import cases_growth
print(json.dumps(cases_growth.tasks_as_granted([1, 2, 1])), flush=True)
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[float]]:
    """The tasks of a step of each kind, in a job that has one core, then two, then one."""
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two CPUs")
    folder = tmp_path_factory.mktemp("growing")
    environment = harness.environment(TF_MALLEABLE_MAX_THREADS=2, TF_ENABLE_ONEDNN_OPTS=1)
    with controller(folder, "--policy", "fcfs-strict") as running:
        job = start(folder, environment | {"TF_MALLEABLE_SOCKET": str(running.socket)})
        try:
            assert job.stdout is not None
            for cores in (2, 1):
                assert json.loads(job.stdout.readline()) == [3 - cores]
                wait_for(lambda: running.get("/v1/jobs")["jobs"])
                status, answer = running.ask("PUT", "/v1/jobs/1/cores", {"cores": cores})
                assert status == 200, answer
            out, errors = job.communicate(timeout=300)
        finally:
            job.kill()
            job.communicate()
    assert job.returncode == 0, errors
    return dict(json.loads(out.splitlines()[-1]))


def start(folder: Path, environment: dict[str, str]) -> subprocess.Popen[str]:
    program = folder / "program.py"
    program.write_text(PROGRAM)
    return subprocess.Popen(
        [TFM, "run", "--preferred", "1", "--max", "2", "--", sys.executable, str(program)],
        env=environment | {"PYTHONPATH": str(CASES)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    """The same in a process that is no job, and was started with two threads."""
    tasks: dict[str, Any] = harness.call(
        "cases_growth",
        "tasks_of_steps",
        [0],
        timeout=300,
        TF_MALLEABLE_MAX_THREADS=2,
        TF_ENABLE_ONEDNN_OPTS=1,
        TF_NUM_INTRAOP_THREADS=2,
    )
    return {name: two for name, (two,) in tasks.items()}


@pytest.mark.slow
def test_a_job_started_with_one_core_has_the_tasks_of_two(
    found: dict[str, list[float]], expected: dict[str, Any]
) -> None:
    assert all(expected.values()), expected
    assert {name: tasks[0] for name, tasks in found.items()} == dict.fromkeys(expected, 0)
    two = {name: tasks[1] for name, tasks in found.items()}
    # How many helpers of a loop find nothing to do any more varies a little.
    assert two == pytest.approx(expected, rel=0.25)


def test_the_job_gives_the_second_core_back(found: dict[str, list[float]]) -> None:
    assert {name: tasks[2] for name, tasks in found.items() if tasks[2]} == {}
