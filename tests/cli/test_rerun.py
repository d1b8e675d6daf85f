# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm rerun: a job like an earlier one."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from tests.support import histories
from tests.support.commands import running, tfm
from tests.support.controllers import job, wait_for
from tf_malleable.cli.background.rerun import check_command
from tf_malleable.model import OperationError


@pytest.fixture(autouse=True)
def outputs(tmp_path, monkeypatch):
    """The folder of output files, which does not exist yet."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "home"))


def ended(controller) -> dict[str, dict]:
    """Return the jobs of the history, by id."""
    return {each["id"]: each for each in controller.get("/v1/history")["jobs"]}


def test_a_job_of_the_foreground_runs_here_again(controller, tmp_path):
    requests = ["--name", "one", "--priority", "3", "--weight", "2", "--mem", "64M"]
    tfm("run", *requests, "--expected", "9s", "--", "sh", "-c", "pwd; exit 5")
    result = tfm("rerun", "one", cwd=tmp_path)
    assert (result.returncode, result.stderr) == (5, "")
    assert result.stdout == f"{tmp_path}\n"
    wait_for(lambda: len(ended(controller)) == 2)
    first, second = (ended(controller)[number] for number in ("1", "2"))
    alike = ("name", "command", "min", "preferred", "max", "priority", "weight", "mem", "expected")
    assert [first[field] for field in alike] == [second[field] for field in alike]
    assert (first["priority"], first["mem"], first["expected"]) == (3, 64 << 20, 9.0)


def test_a_job_of_the_background_runs_there_again_with_its_index(controller):
    program = "echo index $TF_MALLEABLE_ARRAY_INDEX"
    tfm("submit", "--array", "3,4", "--name", "fold", "--", "sh", "-c", program)
    tfm("wait", "fold")
    result = tfm("rerun", "fold[4]")
    assert (result.returncode, result.stdout, result.stderr) == (0, "3\n", "")
    tfm("wait", "3")
    assert tfm("logs", "3").stdout == "index 4\n"
    assert ended(controller)["3"]["name"] == "fold[4]"


def test_a_live_job_can_have_a_second_one(controller):
    with running("--name", "one"):
        tfm("set", "one", "--priority", "7")
        tfm("submit", "--name", "two", "--time-limit", "1h", "--", "sleep", "600")
        result = tfm("rerun", "two")
        assert (result.returncode, result.stdout) == (0, "3\n")
        again = controller.get("/v1/jobs/3")
        assert (again["command"], again["time_limit"]) == (["sleep", "600"], 3600.0)
        tfm("cancel", "--all")


def test_what_cannot_run_again_is_refused(controller):
    tfm("run", "--name", "long", "--", "true", *["x"] * 300)
    result = tfm("rerun", "long")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("tfm: the command of job 1 is not known to its end: ")
    with job(controller.socket) as other:
        other.submit(name="other")
        assert "no command is known of job 2" in tfm("rerun", "other").stderr
    assert tfm("rerun", "nobody").stderr == (
        "tfm: there is no job 'nobody'; 'tfm jobs' and 'tfm history' list them\n"
    )


def test_nobody_runs_what_another_user_has_named_like_a_job():
    record, _ = histories.job(7, "train.py", [(0, 1, "running", [0])])
    stranger = replace(record, user="mallory", command=["sh", "-c", "take over"])
    with pytest.raises(OperationError, match="job 7 is a job of mallory: only your own jobs can"):
        check_command(stranger)
