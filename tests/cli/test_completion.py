# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shells complete tfm's commands, options and the ids of live jobs."""

from __future__ import annotations

import os

import pytest

from tests.support.commands import running, tfm


def completions(line: str) -> list[str]:
    """Return what bash would offer at the end of a line."""
    words = line.split(" ")
    asked = {"_TFM_COMPLETE": "bash_complete", "COMP_WORDS": line}
    result = tfm(env={**os.environ, **asked, "COMP_CWORD": str(len(words) - 1)})
    assert (result.returncode, result.stderr) == (0, "")
    return [said.partition(",")[2] for said in result.stdout.splitlines() if said]


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
        assert completions("tfm pause ") == ["1"]
        assert completions("tfm pause 2") == []


def test_without_a_controller_no_job_is_offered():
    assert completions("tfm cancel ") == []
