# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a program leaves in the background: the job lasts, or says what was killed."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.support.commands import tfm
from tests.support.controllers import controller as running_controller
from tests.support.controllers import wait_for


@pytest.fixture
def controller(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with running_controller(tmp_path) as running:
        monkeypatch.setenv("TF_MALLEABLE_SOCKET", str(running.socket))
        yield running


# Leaves a process in a session of its own until the file "go" is there, which then writes
# "trained".
LAUNCHER = """
nohup setsid bash -c 'while [ ! -e go ]; do sleep 0.05; done; echo yes >trained' >/dev/null 2>&1 &
exit {code}
"""


def launcher(folder: Path, code: int = 0) -> list[str]:
    (folder / "launch.sh").write_text(LAUNCHER.format(code=code))
    return ["bash", "launch.sh"]


def live(controller) -> list[dict]:
    return controller.get("/v1/jobs")["jobs"]


def test_a_script_leaves_its_training_in_the_background(controller, tmp_path):
    result = tfm("run", "--", *launcher(tmp_path, 3), cwd=tmp_path)
    assert (result.returncode, result.stderr) == (3, "")
    (job,) = wait_for(lambda: live(controller) if live(controller)[0]["remaining"] else None)
    assert (job["state"], job["exit_code"]) == ("running", 3)
    assert job["granted"]
    reason = "its main process has ended with exit code 3; "
    assert f"job 1 (bash): {reason}" in tfm("jobs").stdout
    assert reason in tfm("show", "1").stdout
    (tmp_path / "go").touch()
    waited = tfm("wait", "1")
    assert (waited.returncode, waited.stdout) == (3, "job 1 (bash): failed, exit code 3\n")
    assert (tmp_path / "trained").exists()


def test_what_is_killed_is_named(controller, tmp_path):
    command = launcher(tmp_path)
    result = tfm("run", "--kill-leftovers", "--", *command, cwd=tmp_path)
    assert result.returncode == 0
    assert tfm("wait", "1").stdout == "job 1 (bash): finished, exit code 0\n"
    (tmp_path / "go").touch()
    (record,) = json.loads(tfm("history", "--json").stdout)["jobs"]
    assert record["killed"] == len(record["killed_commands"]) >= 1
    assert "of its processes outlived the program and were killed" in tfm("history").stdout
    shown = tfm("show", "1").stdout
    assert all(command in shown for command in record["killed_commands"])
    _, log = controller.stop()
    assert "job 1 (bash): killed what its main process has left behind: " in log
    assert not (tmp_path / "trained").exists()


def test_the_next_attempt_waits_for_what_remains(controller, tmp_path):
    script = tmp_path / "launch.sh"
    script.write_text(
        "if [ -e first ]; then cp trained seen; exit 0; fi\ntouch first\n" + LAUNCHER.format(code=4)
    )
    (tmp_path / "later.sh").write_text("sleep 1; touch go")
    result = tfm(
        *("run", "--retries", "1", "--", "bash", "-c"),
        "if [ ! -e first ]; then setsid bash later.sh & fi; exec bash launch.sh",
        cwd=tmp_path,
    )
    assert result.returncode == 0
    assert "job 1 ended with exit code 4, but processes that it has left" in result.stderr
    assert (tmp_path / "seen").exists()


def test_somebody_is_notified_when_nothing_remains(controller, tmp_path):
    notify = f"echo $TFM_EXIT_CODE $(cat {tmp_path}/trained) >{tmp_path}/note"
    job = tfm("submit", "--notify", notify, "--", *launcher(tmp_path, 5), cwd=tmp_path)
    assert job.returncode == 0, job.stderr
    wait_for(lambda: live(controller)[0]["remaining"])
    (tmp_path / "go").touch()
    note = tmp_path / "note"
    wait_for(lambda: note.exists() and note.read_text())
    assert note.read_text() == "5 yes\n"


def test_the_variable_is_for_the_job_alone(controller):
    said = tfm("run", "--", "sh", "-c", "echo $$ $TF_MALLEABLE_MAIN_PROCESS").stdout.split()
    assert said[1].split("-")[0] == said[0]
    assert "TF_MALLEABLE_MAIN_PROCESS" not in os.environ
