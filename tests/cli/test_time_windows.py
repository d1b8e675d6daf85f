# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm set --between, and jobs that may run only in a part of the day."""

from __future__ import annotations

import json
import os
import signal
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.support.commands import running, submitted, tfm
from tests.support.controllers import wait_for

ALWAYS = "00:00-24:00"


@pytest.fixture
def never():
    """A window of a minute, twelve hours from now."""
    begin = datetime.now() + timedelta(hours=12)
    return f"{begin:%H:%M}-{begin + timedelta(minutes=1):%H:%M}"


def shown(name="job"):
    return json.loads(tfm("show", name, "--json").stdout)["job"]


def test_limits_are_scheduled_shown_kept_and_forgotten(start):
    before = start()
    with running("--name", "job", "--priority", "2"):
        said = tfm("set", "job", "1", "--priority", "-3", "--between", ALWAYS)
        assert (said.returncode, said.stderr) == (0, "")
        assert "1 core, priority -3 between 00:00 and 24:00" in said.stdout
        assert tfm("set", "job", "--max", "1", "--between", "9:00-17:00", "--days", "fri-mon")
        said = tfm("set", "job", "--priority", "5")
        assert "outside of its time windows" in said.stdout
        before.process.send_signal(signal.SIGKILL)
        before.process.wait()
        start()
        job = wait_for(lambda: shown())
        assert (job["by_hand"], job["priority"]) == (1, -3)
        assert job["usual_limits"] == {"cores": None, "max": 1, "priority": 5}
        lines = tfm("show", "job").stdout
        assert "1 core, priority -3 between 00:00 and 24:00" in lines
        assert "at most 1 core between 09:00 and 17:00 (mon,fri-sun)" in lines
        assert "cores by policy, at most 1 core, priority 5" in lines
        said = tfm("set", "job", "--between", "none")
        assert "its limits are the same at all times" in said.stdout
        job = shown()
        assert (job["by_hand"], job["priority"], job["schedule"]) == (None, 5, [])


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("1", "--between", "7-22"), "between must be two different times"),
        (("1", "--between", ALWAYS, "--days", "today"), "days must be names"),
        (("1", "--days", "mon"), "--days is for a time window"),
        (("--between", ALWAYS), "nothing to set in this time window"),
        (("+1", "--between", ALWAYS), "CORES must be a number with --between"),
        (("1", "--between", "none"), "give nothing else with it"),
        (("1", "--between", ALWAYS, "--dry-run"), "--dry-run is for CORES alone"),
    ],
)
def test_what_cannot_be_scheduled_is_refused_in_one_sentence(controller, options, sentence):
    with running("--name", "job"):
        said = tfm("set", "job", *options)
        assert said.returncode == 2
        assert sentence in said.stderr
        assert "Traceback" not in said.stderr
        assert shown()["schedule"] == []


def test_a_job_of_submit_waits_for_its_window_and_says_so(controller, outputs, never):
    job = submitted("--name", "nightly", "--between", never, "--days", "mon-sun", "--", "true")
    begin, end = never.split("-")
    reason = f"it waits until {begin}: it may run only between {begin} and {end}"
    listed = json.loads(tfm("jobs", "--json").stdout)["jobs"][0]
    assert (listed["state"], listed["reason"]) == ("waiting", reason)
    lines = tfm("show", job).stdout
    assert reason in lines
    assert "expected start" in lines
    (stored,) = (json.loads(path.read_text()) for path in outputs.glob("*.job"))
    assert (stored["options"]["between"], stored["options"]["days"]) == (never, "mon-sun")
    assert tfm("cancel", job).returncode == 0


def test_a_job_in_its_window_runs(controller):
    said = tfm("run", "--between", ALWAYS, "--", "echo", "ran")
    assert (said.returncode, said.stdout) == (0, "ran\n")


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--between", "7-22"), "between must be two different times"),
        (("--between", ALWAYS, "--days", "x"), "days must be names"),
        (("--days", "mon"), "give between, too"),
    ],
)
def test_a_program_with_a_bad_window_does_not_start(controller, options, sentence):
    said = tfm("run", *options, "--", "echo", "ran")
    assert (said.returncode, said.stdout) == (2, "")
    assert sentence in said.stderr


def test_a_resumed_job_has_the_window_of_before(controller, outputs, never):
    job = submitted("--between", never, "--", "true")
    pid = controller.get(f"/v1/jobs/{job}")["pid"]
    keeper = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    for each in (keeper, pid):
        os.kill(each, signal.SIGKILL)
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    said = tfm("submit", "--resume")
    assert "waits again" in said.stdout, said
    (again,) = controller.get("/v1/jobs")["jobs"]
    assert (again["id"] != job, again["between"]) == (True, never)
    tfm("cancel", again["id"])
