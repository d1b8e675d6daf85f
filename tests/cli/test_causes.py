# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What has ended a job, other than its own program, is said wherever its end is."""

from __future__ import annotations

import csv
import io
import json
import sys

import pytest

from tests.support.accounts import stored_jobs
from tests.support.cgroup_probe import can_make
from tests.support.commands import CPU, submitted, tfm
from tests.support.controllers import Controller, wait_for
from tests.support.deadline import DEADLINE

pytestmark = pytest.mark.usefixtures("outputs")

HUNGRY = "import time; held = bytearray(b'x' * (512 << 20)); time.sleep(600)"
NEEDS_CGROUPS = pytest.mark.skipif(
    not can_make("memory"), reason="memory cannot be limited by cgroups here"
)


def shell(program: str) -> list[str]:
    return ["--", "sh", "-c", program]


LIMIT = ("--time-limit", "1s", "--", "sleep", "600")
KILLED = ("--", "sh", "-c", "kill -9 $$")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "outcome", "cause", "code"),
    [
        (LIMIT, "cancelled", "time-limit", 143),
        (KILLED, "failed", "signal 9", 137),
        (shell("exit 137"), "failed", None, 137),
        (shell("exit 3"), "failed", None, 3),
        (shell("exit 0"), "finished", None, 0),
    ],
)
def test_it_is_said_by_all_commands(controller, arguments, outcome, cause, code):
    number = submitted("--name", "job", *arguments)
    result = tfm("wait", number)
    assert result.returncode == code
    how = outcome if cause is None else f"{outcome} ({cause})"
    assert result.stdout == f"job {number} (job): {how}, exit code {code}\n"
    (job,) = json.loads(tfm("history", "--json").stdout)["jobs"]
    assert (job["outcome"], job["cause"], job["exit_code"]) == (outcome, cause, code)
    (row,) = csv.DictReader(io.StringIO(tfm("history", "--csv").stdout, newline=""))
    assert row["cause"] == (cause or "")
    shown = cause or (f"{outcome} {code}" if code else outcome)
    assert f" {shown} " in tfm("history").stdout.splitlines()[1]
    lines = dict(line.split("  ", 1) for line in tfm("show", number).stdout.splitlines())
    assert lines["outcome"].strip() == how


@pytest.mark.slow
def test_who_is_notified_learns_it(controller, tmp_path):
    note = tmp_path / "note"
    said = "$TF_MALLEABLE_JOB_EXIT_CODE $TF_MALLEABLE_JOB_CAUSE"
    command = f"echo {said} > {note}.new; mv {note}.new {note}"
    submitted("--notify", command, *LIMIT)
    wait_for(note.exists)
    assert note.read_text() == "143 time-limit\n"


def test_a_user_who_cancels_is_no_cause(controller):
    number = submitted("--", "sleep", "600")
    assert tfm("cancel", number).returncode == 0
    assert tfm("wait", number).stdout.endswith(": cancelled, exit code 143\n")
    (job,) = controller.get("/v1/history")["jobs"]
    assert job["cause"] is None


@pytest.mark.slow
def test_a_job_that_is_being_ended_says_it(controller):
    program = "trap '' TERM; while :; do sleep 0.1; done"
    number = submitted("--time-limit", "1s", *shell(program))

    def overdue():
        jobs = json.loads(tfm("jobs", "--json").stdout)["jobs"]
        return next((job for job in jobs if job["cause"]), None)

    assert wait_for(overdue)["cause"] == "time-limit"
    assert "it has reached its time limit and is about to end" in tfm("jobs").stdout
    assert tfm("wait", number).stdout.endswith(": cancelled (time-limit), exit code 137\n")


def test_a_main_process_that_was_killed_says_it_while_others_remain(controller):
    number = submitted(*shell("sleep 600 & kill -9 $$"))
    wait_for(lambda: controller.get(f"/v1/jobs/{number}")["main_ended"])
    assert controller.get(f"/v1/jobs/{number}")["cause"] == "signal 9"
    assert "its main process was ended by signal 9; 1 process remains" in tfm("jobs").stdout
    tfm("cancel", number)


@pytest.mark.slow
@NEEDS_CGROUPS
def test_memory_that_is_not_there(tmp_path):
    controller = Controller(tmp_path, "--cpus", str(CPU))
    try:
        number = submitted("--mem", "64M", "--", sys.executable, "-c", HUNGRY)
        wait_for(lambda: controller.get("/v1/history")["jobs"])
        (job,) = controller.get("/v1/history")["jobs"]
        assert (job["outcome"], job["cause"]) == ("failed", "out-of-memory")
        assert "failed (out-of-memory), exit code 137" in tfm("wait", number).stdout
    finally:
        controller.stop()


@NEEDS_CGROUPS
def test_a_shell_whose_program_lacked_memory(tmp_path):
    controller = Controller(tmp_path, "--cpus", str(CPU))
    try:
        program = f'{sys.executable} -c "{HUNGRY}"; exit 5'
        submitted("--mem", "64M", *shell(program))
        wait_for(lambda: controller.get("/v1/history")["jobs"])
        (job,) = controller.get("/v1/history")["jobs"]
        assert (job["outcome"], job["cause"]) == ("failed", "out-of-memory")
    finally:
        controller.stop()


@NEEDS_CGROUPS
@pytest.mark.serial("another controller of this user would remove the cgroup that tells the cause")
def test_the_same_while_no_controller_ran(tmp_path, outputs):
    go = tmp_path / "go"
    controller = Controller(tmp_path, "--cpus", str(CPU))
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}): time.sleep(0.1)\n"
    submitted("--mem", "64M", "--name", "mem", "--", sys.executable, "-c", wait + HUNGRY)
    submitted("--name", "kill", *shell(f"until [ -e {go} ]; do sleep 0.1; done; kill -15 $$"))
    wait_for(lambda: [j["state"] for j in controller.get("/v1/jobs")["jobs"]][1:] or None)
    # The program of the first one starts, for which it needs the controller.
    wait_for(lambda: any(each["started"] for each in stored_jobs(outputs)))
    controller.stop()
    go.touch()
    wait_for(lambda: any(path.read_text() for path in outputs.glob("*.exit")))
    again = Controller(tmp_path, "--cpus", str(CPU))
    try:
        wait_for(lambda: len(again.get("/v1/history")["jobs"]) == 2)
        causes = {each["name"]: each["cause"] for each in again.get("/v1/history")["jobs"]}
        assert causes == {"mem": "out-of-memory", "kill": "signal 15"}
    finally:
        again.process.kill()
        again.process.communicate(timeout=DEADLINE)
