# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm notify: one notice when several jobs have ended."""

from __future__ import annotations

import json
import os
import pwd
import signal

import pytest

from tests.support.commands import submitted, tfm
from tests.support.controllers import wait_for

pytestmark = pytest.mark.usefixtures("outputs")


def shell(program: str) -> tuple[str, ...]:
    return ("--", "sh", "-c", program)


@pytest.fixture
def command(tmp_path):
    """A command that writes the notice to the file `notice` at once."""
    return f"cat > {tmp_path}/part; mv {tmp_path}/part {tmp_path}/notice"


@pytest.fixture
def notice(tmp_path):
    """Returns the notice, once it is there."""

    def read() -> str:
        wait_for((tmp_path / "notice").exists)
        return (tmp_path / "notice").read_text()

    return read


def test_a_command_gets_the_table_of_failures_once_all_have_ended(
    controller, tmp_path, command, notice
):
    go = tmp_path / "go"
    wait = f"until [ -e {go} ]; do sleep 0.05; done"
    ids = [
        submitted("--group", "sweep", "--name", f"try{code}", *shell(f"{wait}; exit {code}"))
        for code in (0, 3)
    ]
    result = tfm("notify", "--group", "sweep", "--command", command)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"command {command!r} follows when all 2 jobs have ended\n"
    assert not (tmp_path / "notice").exists()
    go.touch()
    first, empty, header, row = notice().splitlines()
    assert first.startswith("2 jobs have ended on ")
    assert first.endswith(", 1 without success.")
    assert empty == ""
    assert header.split() == ["id", "name", "outcome", "exit", "code", "ended", "output"]
    assert row.split()[:4] == [ids[1], "try3", "failed", "3"]
    assert row.split()[-1].endswith(".log")


def test_json_is_for_programs_and_the_terminal_may_end(controller, command, notice):
    number = submitted("--", "sleep", "600")
    told = json.loads(tfm("notify", number, "--command", command, "--json").stdout)
    assert (told["jobs"], told["mail"], told["command"]) == ([number], None, command)
    assert os.getsid(told["pid"]) == told["pid"]
    os.kill(told["pid"], signal.SIGHUP)
    assert tfm("cancel", number).returncode == 0
    document = json.loads(notice())
    assert (document["jobs"], document["unknown"]) == (1, [])
    assert [each["outcome"] for each in document["failures"]] == ["cancelled"]


def test_mail_goes_to_the_user_by_sendmail(controller, tmp_path, monkeypatch, command, notice):
    program = tmp_path / "bin" / "sendmail"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/words; {command}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    number = submitted("--", "true")
    assert tfm("wait", number).returncode == 0
    user = pwd.getpwuid(os.getuid()).pw_name
    result = tfm("notify", number)
    assert result.stdout == f"mail to {user} follows when job {number} has ended\n"
    headers, _, text = notice().partition("\n\n")
    assert f"To: {user}" in headers.splitlines()
    assert "Subject: 1 job has ended on " in headers
    assert text.endswith(", none without success.\n")
    assert (tmp_path / "words").read_text() == "-t -i\n"


def test_bad_input_is_one_line(controller):
    for arguments, code, said in (
        (("--mail", "a", "--command", "b"), 2, "--mail and --command exclude each other"),
        (("--mail", "a\nBcc: b"), 2, "--mail must be one address"),
        (("--command", "true"), 1, "no job of yours is live"),
        (("9", "--command", "true"), 1, "there is no job '9'"),
    ):
        result = tfm("notify", *arguments)
        assert (result.returncode, result.stdout) == (code, "")
        assert result.stderr.startswith(f"tfm: {said}")
        assert result.stderr.count("\n") == 1
