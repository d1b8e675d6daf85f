# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Groups of jobs, which their user names."""

from __future__ import annotations

import json

import msgspec
import pytest

from tests.support import controllers
from tests.support.commands import submitted, tfm
from tests.support.controllers import wait_for
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.jobs.job_arguments import Selection, find_all, of_group

pytestmark = pytest.mark.usefixtures("outputs")

SLEEP = ("--", "sleep", "600")


@pytest.fixture
def controller(tmp_path):
    """A controller under which several jobs have cores."""
    with controllers.controller(tmp_path, "--policy", "equal") as running:
        yield running


def said(*arguments: str) -> dict:
    result = tfm(*arguments, "--json")
    assert (result.returncode, result.stderr) == (0, "")
    return json.loads(result.stdout)


def shown_group(job: str) -> str:
    lines = (line.split() for line in tfm("show", job).stdout.splitlines())
    return next(words[1] for words in lines if words[0] == "group")


@pytest.mark.slow
def test_a_group_is_changed_as_one_and_no_other_job(controller):
    ids = [submitted("--group", "sweep", "--name", name, *SLEEP) for name in "ab"]
    other = submitted("--name", "c", *SLEEP)
    assert controller.get(f"/v1/jobs/{ids[0]}")["group"] == "sweep"
    assert shown_group(ids[0]) == "sweep"
    assert [each["id"] for each in said("jobs", "--group", "sweep")["jobs"]] == ids
    assert len(tfm("pause", "--group", "sweep").stdout.splitlines()) == 2
    paused = {each["id"]: each["paused_by_user"] for each in controller.get("/v1/jobs")["jobs"]}
    assert paused == {ids[0]: True, ids[1]: True, other: False}
    assert tfm("resume", "--group", "sweep").returncode == 0
    found = said("set", "--group", "sweep", "--priority", "7")["jobs"]
    assert [(each["id"], each["priority"]) for each in found] == [(each, 7) for each in ids]
    assert tfm("cancel", "--group", "sweep").returncode == 0
    assert tfm("wait", "--group", "sweep").returncode == 128 + 15
    assert [each["id"] for each in controller.get("/v1/jobs")["jobs"]] == [other]
    assert {each["id"] for each in said("history", "--group", "sweep")["jobs"]} == {*ids}
    assert tfm("jobs", "--group", "sweep").stdout == "no job of group sweep is live\n"
    assert tfm("cancel", other).returncode == 0


def test_waiting_and_logs_include_the_ended_ones(controller):
    for code in (0, 4):
        number = submitted("--group", "sweep", "--", "sh", "-c", f"echo {code}; exit {code}")
        assert tfm("wait", number).returncode == code
    submitted("--", "sh", "-c", "exit 5")
    result = tfm("wait", "--group", "sweep")
    assert result.returncode == 4
    assert len(result.stdout.splitlines()) == 2
    assert tfm("logs", "--group", "sweep").stdout == "1 sh: 0\n2 sh: 4\n"
    again = tfm("rerun", "1").stdout.strip()
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    assert shown_group(again) == "sweep"


def test_a_group_of_the_same_name_of_another_user_is_another_one(controller, socket):
    submitted("--group", "sweep", *SLEEP)
    (said,) = controller.get("/v1/jobs")["jobs"]
    mine, theirs = (
        msgspec.convert({**said, "user": user}, JobStatus) for user in (said["user"], "x")
    )
    client = Client(socket)
    assert of_group(client, "sweep", [mine, theirs]) == [mine]
    # Root's, too: only --all is for the jobs of others.
    assert find_all(client, Selection(group="sweep"))[0].id == mine.id
    assert tfm("cancel", "--group", "sweep").returncode == 0


@pytest.mark.parametrize("command", ["cancel", "wait", "logs", "set", "pause", "resume"])
def test_a_group_without_jobs_is_said(controller, command):
    more = ("4",) if command == "set" else ()
    result = tfm(command, "--group", "none", *more)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "tfm: no job of yours is in a group 'none'; tfm show names a job's group\n"
    )


def test_bad_input_is_one_line(controller):
    result = tfm("cancel", "--group", "a", "1")
    assert (result.returncode, result.stderr) == (
        2,
        "tfm: JOB, --group, --mine and --all exclude each other: give one of them\n",
    )
    result = tfm("set", "--group", "a", "1", "4")
    assert (result.returncode, result.stderr) == (
        2,
        "tfm: JOB and --group exclude each other: give one of them\n",
    )
    result = tfm("run", "--group", "", "--", "true")
    assert (result.returncode, result.stderr) == (
        2,
        "tfm: group must be a string of 1 to 200 characters, not ''\n",
    )
