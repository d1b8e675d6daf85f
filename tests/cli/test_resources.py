# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run with memory and GPUs, and a controller that shares out GPUs or limits jobs."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys

import pytest

from tests.support import controllers
from tests.support.commands import CPU, running, started, tfm
from tests.support.controllers import wait_for

HOLDS = "import time; held = bytearray(b'x' * (32 << 20)); time.sleep(600)"
VISIBLE = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"


several = pytest.mark.skipif(
    len(os.sched_getaffinity(0)) < 2, reason="with one CPU, one job waits for cores"
)


@pytest.fixture
def host(tmp_path):
    """Return a function that runs a controller with one CPU and these options."""

    def run(*options: str):
        return controllers.controller(tmp_path, "--cpus", str(CPU), *options)

    return run


def visible(*options: str, **environment: str) -> str:
    """Return what CUDA_VISIBLE_DEVICES is in a job."""
    env = {**os.environ, **environment}
    result = tfm("run", *options, "--", sys.executable, "-c", VISIBLE, env=env)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


def test_a_job_sees_the_gpus_that_it_was_given(host):
    with host("--gpus", "2") as controller:
        assert visible("--gpus", "2", CUDA_VISIBLE_DEVICES="7") == "0,1"
        # A GPU is for one job: who has asked for none must not use another's.
        assert visible(CUDA_VISIBLE_DEVICES="7") == ""
        ended = wait_for(lambda: (j := controller.get("/v1/history")["jobs"])[1:] and j)
        assert [job["gpus"] for job in ended] == [[0, 1], []]
        (row, _) = csv.DictReader(io.StringIO(tfm("history", "--csv").stdout, newline=""))
        assert row["gpus"] == "0 1"


def test_without_gpus_to_share_out_the_environment_is_left_alone(host):
    with host():
        assert visible(CUDA_VISIBLE_DEVICES="7") == "7"
        result = tfm("run", "--gpus", "1", "--", "true")
        assert result.returncode == 2
        assert "gpus must be at most 0, the number of GPUs shared out here" in result.stderr


def test_jobs_show_memory_and_gpus(host):
    command = ("--", sys.executable, "-c", HOLDS)
    with host("--gpus", "1"), started("run", "--mem", "256M", "--gpus", "1", *command):

        def measured():
            jobs = json.loads(tfm("jobs", "--json").stdout)["jobs"]
            return next((job for job in jobs if (job["used_mem"] or 0) >= 32 << 20), None)

        job = wait_for(measured)
        assert (job["mem"], job["gpus"], job["granted_gpus"]) == (256 << 20, 1, [0])
        assert job["used_mem"] <= job["peak_mem"] < 256 << 20
        shown = tfm("show", job["id"]).stdout
        assert re.search(r"^memory asked for +256\.0 MiB$", shown, re.MULTILINE)
        assert re.search(r"^GPUs granted +0$", shown, re.MULTILINE)


@several
def test_a_job_says_that_it_waits_for_gpus(tmp_path):
    with (
        controllers.controller(tmp_path, "--policy", "equal", "--gpus", "1") as controller,
        running("--max", "1", "--gpus", "1"),
        started("run", "--max", "1", "--gpus", "1", "--", "true") as process,
    ):
        assert process.stderr is not None
        said = process.stderr.readline()
        assert said == "tfm: job 2 is waiting for GPUs; tfm jobs shows the queue\n"
        assert controller.get("/v1")["gpus"] == [0]


@several
def test_no_more_jobs_run_than_may(tmp_path):
    with (
        controllers.controller(tmp_path, "--policy", "equal", "--max-running", "1") as controller,
        running("--max", "1"),
        started("run", "--max", "1", "--", "true") as process,
    ):
        assert process.stderr is not None
        assert "is waiting for another job to end" in process.stderr.readline()
        assert controller.get("/v1")["max_running"] == 1
        assert [job["state"] for job in controller.get("/v1/jobs")["jobs"]] == [
            "running",
            "waiting",
        ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run", "--mem", "4GB"), "must be a size such as 512M or 4G, not '4GB'"),
        (("run", "--mem", "4"), "mem must be an integer from 1048576 to"),
        (("run", "--gpus", "-1"), "gpus must be an integer from 0 to 1024, not -1"),
        (("run", "--threads", "1", "--mem", "4G"), "--mem is for a controller"),
        (("run", "--threads", "1", "--gpus", "1"), "--gpus is for a controller"),
    ],
)
def test_what_cannot_be_asked_for_is_bad_input(arguments, said):
    result = tfm(*arguments, "--", "true")
    assert (result.returncode, result.stdout) == (2, "")
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--gpus", "two"), "--gpus must be auto or a number up to 1024, not 'two'"),
        (("--max-running", "0"), "--max-running must be a number from 1 on, not 0"),
    ],
)
def test_what_a_controller_cannot_share_out_is_bad_input(tmp_path, options, said):
    places = ("--socket", str(tmp_path / "c.sock"), "--state", str(tmp_path / "c.db"))
    result = tfm("controller", *places, *options)
    assert result.returncode == 2
    assert said in result.stderr
