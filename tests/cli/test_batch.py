# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Many jobs from one command line: a file of commands, or several scripts."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.commands import tfm
from tests.support.controllers import TFM, wait_for
from tests.support.deadline import DEADLINE

pytestmark = pytest.mark.usefixtures("outputs")


@pytest.fixture
def lines(tmp_path, monkeypatch):
    """Writes jobs.txt, in the present folder."""
    monkeypatch.chdir(tmp_path)
    return (tmp_path / "jobs.txt").write_text


def test_each_line_is_a_job_with_its_options(controller, lines, tmp_path):
    (tmp_path / "train.py").write_text("import sys; print(sys.argv[1:])\n")
    lines(
        "# rates\n\n"
        "sh -c 'echo \"one  word\"; exit 2'\n"
        "  # and then\n"
        "--name second --priority 5 --after-ok prepared -- train.py --rate 0.1 'a b'\n"
        "--name prepared -- true\n"
    )
    result = tfm("submit", "--group", "sweep", "--priority", "3", "--file", "jobs.txt")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("tfm: line 5 of jobs.txt: there is no job 'prepared'; ")
    lines(
        "# rates\n\n"
        "sh -c 'echo \"one  word\"; exit 2'\n"
        "--name prepared -- true\n"
        "--name second --priority 5 --after-ok prepared -- train.py --rate 0.1 'a b'\n"
    )
    result = tfm("submit", "--group", "sweep", "--priority", "3", "--file", "jobs.txt")
    assert (result.returncode, result.stderr) == (0, "")
    ids = result.stdout.split()
    assert len(ids) == 3
    assert tfm("wait", "--group", "sweep").returncode == 2
    assert tfm("logs", ids[0]).stdout == "one  word\n"
    assert tfm("logs", ids[2]).stdout == "['--rate', '0.1', 'a b']\n"
    jobs = controller.get("/v1/history")["jobs"]
    assert [(each["name"], each["priority"]) for each in jobs] == [
        ("sh", 3),
        ("prepared", 3),
        ("second", 5),
    ]


def test_stdin_is_a_file_too(controller):
    done = subprocess.run(
        [sys.executable, TFM, "submit", "--file", "-"],
        input="echo a\n\necho b\n",
        capture_output=True,
        text=True,
        timeout=DEADLINE,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.split()) == 2


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("echo 'a", "No closing quotation"),
        ("no-such-program a", "there is no program 'no-such-program'"),
        ("--max 2 echo", "a line that begins with options has -- and a command after them"),
        ("--maximum 2 -- true", "No such option"),
        ("--file x -- true", "--file is not for single lines"),
        ("--min 2000 -- true", "min must be at most 1, the number of CPUs shared out here"),
        ("--retries 5000 -- true", "--retries must be an integer from 0 to 1000, not 5000"),
        ("--min 3 --max 2 -- true", "a shape must have 1"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_submitted(controller, lines, outputs, line, said):
    lines(f"true\n{line}\n")
    result = tfm("submit", "--file", "jobs.txt")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tfm: line 2 of jobs.txt: {said}")
    assert result.stderr.count("\n") == 1
    assert controller.get("/v1/jobs")["jobs"] == controller.get("/v1/history")["jobs"] == []
    assert not outputs.exists()


def test_what_the_controller_refuses_leaves_none(controller, lines):
    lines("sleep 600\n--gpus 1 -- sleep 600\nsleep 600\n")
    result = tfm("submit", "--file", "jobs.txt")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.splitlines()[-1] == (
        "tfm: line 2 of jobs.txt is not submitted, and so none is: those before it are cancelled"
    )
    wait_for(lambda: not controller.get("/v1/jobs")["jobs"])
    (record,) = controller.get("/v1/history")["jobs"]
    assert record["outcome"] == "cancelled"


def test_each_script_is_a_job(controller, lines, tmp_path):
    for name in ("a.py", "b.py"):
        (tmp_path / name).write_text(f"print({name!r})\n")
    result = tfm("submit", "--each", "a.py", "b.py")
    assert (result.returncode, result.stderr) == (0, "")
    first, second = result.stdout.split()
    assert tfm("wait", first, second).returncode == 0
    assert tfm("logs", second).stdout == "b.py\n"
    result = tfm("submit", "--each", "a.py", "c.py")
    assert (result.returncode, result.stderr) == (2, "tfm: c.py: there is no program 'c.py'\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--file", "jobs.txt", "true"), "--file has the commands: give no program"),
        (("--file", "jobs.txt", "--each"), "--resume, --file and --each exclude each other"),
        (("--file", "none.txt"), "--file: cannot read none.txt: No such file or directory"),
        (("--file", "jobs.txt"), "--file: jobs.txt has no command"),
    ],
)
def test_bad_input_is_one_line(controller, lines, arguments, said):
    lines("# nothing\n")
    result = tfm("submit", *arguments)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith(f"tfm: {said}")
