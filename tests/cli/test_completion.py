# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shells complete tfm's commands, options and the ids of live jobs."""

from __future__ import annotations

import os

import pytest

from tests.support.commands import running, tfm
from tests.support.controllers import wait_for


def completions(line: str) -> list[str]:
    """Return what bash would offer at the end of a line."""
    return [said.partition(",")[2] for said in offered(line)]


def offered(line: str) -> list[str]:
    """Return the kinds and the values of what bash would offer at the end of a line."""
    words = line.split(" ")
    asked = {"_TFM_COMPLETE": "bash_complete", "COMP_WORDS": line}
    result = tfm(env={**os.environ, **asked, "COMP_CWORD": str(len(words) - 1)})
    assert (result.returncode, result.stderr) == (0, "")
    return [said for said in result.stdout.splitlines() if said]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_a_script_that_asks_tfm(shell):
    result = tfm("completion", shell)
    assert result.returncode == 0
    assert f"_TFM_COMPLETE={shell}_complete" in result.stdout


def test_another_shell_is_bad_input():
    result = tfm("completion", "tcsh")
    assert (result.returncode, result.stdout) == (2, "")
    assert "'bash', 'zsh', 'fish'" in result.stderr


def test_commands_and_options_are_completed():
    assert completions("tfm pa") == ["pause"]
    assert "--require-controller" in completions("tfm run --req")


def test_jobs_are_completed_with_their_ids(controller):
    with running("--name", "one"):
        assert completions("tfm pause ") == ["1", "one"]
        assert completions("tfm pause o") == ["one"]
        assert completions("tfm kill o") == ["one"]
        assert completions("tfm run --after o") == ["one"]
        assert completions("tfm pause 2") == []


def test_groups_are_completed_of_live_and_ended_jobs(controller):
    with running("--group", "night"):
        tfm("run", "--group", "not-queued", "--no-queue", "--", "true")
        for command in ("cancel", "wait", "logs", "history", "run", "set", "jobs", "notify"):
            assert completions(f"tfm {command} --group n") == ["night"]
    wait_for(lambda: controller.get("/v1/history")["jobs"])
    assert completions("tfm history --group ") == ["night"]
    assert completions("tfm run --after-ok ") == ["1", "sh"]


def test_ended_jobs_are_completed_where_they_are_of_use(controller):
    tfm("run", "--name", "past", "--", "true")
    wait_for(lambda: controller.get("/v1/history")["jobs"])
    for command in ("rerun", "logs"):
        assert completions(f"tfm {command} ") == ["1", "past"]
        assert completions(f"tfm {command} pa") == ["past"]
    assert completions("tfm cancel pa") == []


def test_a_name_that_a_shell_would_split_is_not_offered(controller):
    with running("--name", "one two"):
        assert completions("tfm pause ") == ["1"]


@pytest.mark.parametrize(
    "line",
    [
        "tfm run -- ",
        "tfm run --max 2 -- python tr",
        "tfm run python tr",
        "tfm submit -- python tr",
        "tfm elastic local -- python tr",
        "tfm workload pl",
        "tfm run --id-file fi",
    ],
)
def test_files_are_left_to_the_shell(line):
    assert offered(line) == [f"file,{line.rpartition(' ')[2]}"]


@pytest.mark.parametrize("command", ["policy", "controller --policy", "simulate --policy"])
def test_policies_are_completed(command):
    assert completions(f"tfm {command} srp") == ["srpt"]
    assert "equal" in completions(f"tfm {command} ")


def test_without_a_controller_no_job_is_offered():
    assert completions("tfm cancel ") == []
