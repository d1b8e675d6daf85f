# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm submit --array: a job for each index."""

from __future__ import annotations

import pytest

from tests.support import controllers
from tests.support.commands import tfm
from tests.support.controllers import wait_for
from tf_malleable.api.schema.job_request import MOST_INDICES
from tf_malleable.cli.launch.arrays import Array


@pytest.fixture(autouse=True)
def outputs(tmp_path, monkeypatch):
    """The folder of output files, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "tf_malleable" / "output"


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("1-3", Array((1, 2, 3))),
        ("7", Array((7,))),
        ("3,1,2-4", Array((3, 1, 2, 4))),
        ("0-9%4", Array(tuple(range(10)), 4)),
        ("1-4%4", Array((1, 2, 3, 4))),
        ("1-4%999999", Array((1, 2, 3, 4))),
        (f"1-{MOST_INDICES}", Array(tuple(range(1, MOST_INDICES + 1)))),
    ],
)
def test_what_can_be_said(text, array):
    assert Array.parse(text) == array


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("5-1", "must begin each range with its lowest index, not '5-1'"),
        ("1-3,9-8", "must begin each range with its lowest index, not '9-8'"),
        ("0%0", "must let at least 1 job run at once, not '0' as in '0%0'"),
        (f"0-{MOST_INDICES}", f"must have at most {MOST_INDICES} indices, not {MOST_INDICES + 1}"),
        ("0-999999999", f"must have at most {MOST_INDICES} indices, not 1000000000"),
        *(
            (text, f"must be indices such as 1-20, 1,3,7 or 1-20%4, not {text!r}")
            for text in ("a", "1-", "1--3", "1,,2", "1-3%", "1-3%-1", "1-3%2%1", "%4", "٣", "1.5")
        ),
    ],
)
def test_what_cannot_be_is_said_in_a_sentence(text, said, outputs):
    result = tfm("submit", f"--array={text}", "--", "true")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"tfm: Invalid value for '--array': {said}\n"
    assert not outputs.exists()


def test_it_is_for_the_background_and_for_several_jobs(tmp_path):
    result = tfm("run", "--array", "1-3", "--", "true")
    assert result.returncode == 2
    assert result.stderr == "tfm: --array is for jobs in the background: give --detach, too\n"
    result = tfm("submit", "--array", "1-3", "--id-file", str(tmp_path / "id"), "--", "true")
    assert result.returncode == 2
    assert result.stderr == "tfm: --id-file is for one job, and --array starts several\n"


@pytest.mark.slow
def test_each_index_is_a_job_and_so_many_run_at_once(tmp_path, outputs):
    gate = tmp_path / "gate"
    program = (
        "echo index $TF_MALLEABLE_ARRAY_INDEX;"
        f" until [ -e {gate} ]; do sleep 0.05; done;"
        " exit $TF_MALLEABLE_ARRAY_INDEX"
    )
    with controllers.controller(tmp_path, "--policy", "equal") as controller:
        command = ["--name", "part", "--max", "1", "--", "sh", "-c", program]
        result = tfm("submit", "--array", "0,2-3%1", *command)
        assert (result.returncode, result.stderr) == (0, "")
        jobs = result.stdout.split()
        assert jobs == ["1", "2", "3"]

        def states() -> dict[str, str]:
            return {each["name"]: each["state"] for each in controller.get("/v1/jobs")["jobs"]}

        wait_for(lambda: states()["part[0]"] == "running")
        # Others may start beside them, if there are cores.
        assert tfm("run", "--max", "1", "--", "true").returncode == 0
        assert states() == {"part[0]": "running", "part[2]": "waiting", "part[3]": "waiting"}
        assert "no more than 1 of the jobs of its array" in tfm("show", "part[2]").stdout
        assert tfm("cancel", "part[3]").returncode == 0
        wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 2)
        assert tfm("pause", "part").stdout.count("; resume it with: tfm resume ") == 2
        assert tfm("resume", "p*[?]").stdout.count(": resumed; ") == 2
        after = tfm("submit", "--after", "part", "--", "true")
        assert controller.get(f"/v1/jobs/{after.stdout.strip()}")["after"] == ["1", "2"]
        gate.touch()
        result = tfm("wait", *jobs)
        assert result.returncode == 2
        lines = result.stdout.splitlines()
        names = [line.partition(":")[0] for line in lines]
        assert names == ["job 1 (part[0])", "job 2 (part[2])", "job 3 (part[3])"]
        assert lines[1].endswith(", exit code 2")
        assert "cancelled" in lines[2]
        # Also those that have ended are the array's.
        assert tfm("wait", "part").stdout == result.stdout
        assert tfm("submit", "--array", "5-6", "--name", "part", "--", "true").returncode == 0
        lines = tfm("wait", "part").stdout.splitlines()
        names = [line.partition(":")[0].partition(" (")[2] for line in lines]
        assert names == ["part[5])", "part[6])"]
        for job, index in zip(jobs, (0, 2), strict=False):
            assert tfm("logs", job).stdout.splitlines()[-1] == f"index {index}"
    assert len(list(outputs.glob("*.log"))) == 3 + 1 + 2


def test_what_is_refused_is_said_once(controller, outputs):
    result = tfm("submit", "--array", "1-3", "--", "no-such-program")
    assert (result.returncode, result.stdout) == (127, "")
    assert result.stderr == "tfm: there is no program 'no-such-program'\n"
    assert list(outputs.iterdir()) == []
