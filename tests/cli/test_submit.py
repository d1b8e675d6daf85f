# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs in the background: submitted, read, waited for."""

from __future__ import annotations

import os
import re
import signal
import stat
from pathlib import Path

import pytest

from tests.support import controllers
from tests.support.commands import running, started, submitted, tfm
from tests.support.controllers import TFM, job, wait_for
from tests.support.deadline import DEADLINE
from tests.support.descriptors import open_files

pytestmark = pytest.mark.usefixtures("outputs")


def shell(program: str) -> list[str]:
    return ["--", "sh", "-c", program]


def test_a_job_runs_in_the_background_and_its_output_is_kept(controller, outputs):
    number = submitted("--name", "one", *shell("echo out; echo err >&2; exit 3"))
    assert number == "1"
    result = tfm("wait", number)
    assert (result.returncode, result.stderr) == (3, "")
    # Before Linux 6.15 only the keeper knows the exit code.
    assert re.fullmatch(r"job 1 \(one\): (failed|unknown), exit code 3\n", result.stdout)
    result = tfm("logs", number)
    assert (result.returncode, result.stdout, result.stderr) == (0, "out\nerr\n", "")
    assert tfm("logs", "one").stdout == "out\nerr\n"
    (output,) = outputs.glob("*.log")
    assert stat.S_IMODE(output.stat().st_mode) == 0o600
    assert stat.S_IMODE(outputs.stat().st_mode) == 0o700
    wait_for(output.with_suffix(".exit").exists)
    assert output.with_suffix(".exit").read_text() == "3 job 1\n"
    (record,) = controller.get("/v1/history")["jobs"]
    assert record["output"] == str(output)


def test_detach_is_another_way_to_say_it(controller):
    result = tfm("run", "--detach", "--", "true")
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")
    assert tfm("wait", "1").returncode == 0


def test_it_waits_for_cores_without_the_terminal(controller):
    with running("--name", "first"):
        number = submitted("--name", "second", "--", "echo", "ran")
        assert controller.get(f"/v1/jobs/{number}")["state"] == "waiting"
        with started("wait", number) as waiting:
            assert tfm("cancel", "first").returncode == 0
            assert waiting.wait(DEADLINE) == 0
    assert tfm("logs", number).stdout == "ran\n"


def test_it_has_a_session_of_its_own_and_reads_nothing(controller):
    number = submitted("--", "sh", "-c", "cat; echo read; exec sleep 600")
    status = controller.get(f"/v1/jobs/{number}")
    pid, output = status["pid"], status["output"]
    try:
        wait_for(lambda: tfm("logs", number).stdout == "read\n")
        keeper = os.getsid(pid)
        assert keeper not in (os.getsid(0), pid)
        assert os.readlink(f"/proc/{pid}/fd/0") == os.devnull
        # Nobody who reads what tfm submit prints waits for the job.
        exit_file = str(Path(output).with_suffix(".exit"))
        # The program may still be opening its libraries.
        wait_for(lambda: {*open_files(pid).values()} == {os.devnull, output})
        # It may still be about to close the pipe by which it has heard of the job.
        wait_for(lambda: {*open_files(keeper).values()} == {os.devnull, exit_file})
    finally:
        os.kill(pid, signal.SIGKILL)


def test_output_is_followed_to_its_end(controller, tmp_path):
    go = tmp_path / "go"
    number = submitted(*shell(f"echo one; until [ -e {go} ]; do sleep 0.1; done; echo two"))
    with started("logs", "-f", number) as following:
        assert following.stdout is not None
        assert following.stdout.readline() == "one\n"
        assert number in {each["id"] for each in controller.get("/v1/jobs")["jobs"]}
        go.touch()
        assert following.stdout.readline() == "two\n"
        assert following.wait(DEADLINE) == 0


def test_a_job_that_is_cancelled_has_failed_for_whoever_waits(controller):
    number = submitted("--", "sleep", "600")
    with started("wait", number) as waiting:
        tfm("cancel", number)
        assert waiting.wait(DEADLINE) == 128 + signal.SIGTERM


def test_of_several_jobs_the_first_failure_counts(controller):
    jobs = [submitted(*shell(f"exit {code}")) for code in (0, 4, 5)]
    result = tfm("wait", *jobs)
    assert result.returncode == 4
    assert len(result.stdout.splitlines()) == 3


def test_a_job_starts_after_another_one(tmp_path):
    with controllers.controller(tmp_path, "--policy", "equal") as controller:
        first = submitted("--name", "first", "--", "sleep", "600")
        then = submitted("--after", "first", "--after", first, "--", "echo", "ran")
        status = controller.get(f"/v1/jobs/{then}")
        assert (status["state"], status["after"]) == ("waiting", [first])
        shown = tfm("show", then).stdout
        assert "it starts after the end of job 1 (first)\n" in shown
        assert tfm("cancel", first).returncode == 0
        assert tfm("wait", then).returncode == 0
        # What has ended already need not be waited for.
        assert tfm("run", "--after", "first", "--", "echo", "ran").stdout == "ran\n"
        result = tfm("run", "--after", "nobody", "--", "echo", "ran")
        assert (result.returncode, result.stdout) == (1, "")
        assert result.stderr.startswith("tfm: there is no job 'nobody'; ")


def test_somebody_is_notified_of_the_end(controller, tmp_path, outputs):
    note = tmp_path / "note"
    # The second line has the names of earlier versions.
    command = (
        f"(echo $TF_MALLEABLE_JOB $TF_MALLEABLE_JOB_EXIT_CODE $TF_MALLEABLE_JOB_OUTPUT;"
        f" echo $TFM_JOB $TFM_EXIT_CODE $TFM_OUTPUT) > {note}.new; mv {note}.new {note}"
    )
    number = submitted("--notify", command, *shell("exit 3"))
    wait_for(note.exists)
    (output,) = outputs.glob("*.log")
    assert note.read_text().splitlines() == [f"{number} 3 {output}"] * 2


def test_a_program_knows_its_job(controller):
    tell = shell("echo $TF_MALLEABLE_JOB")
    number = submitted(*tell)
    assert tfm("wait", number).returncode == 0
    assert tfm("logs", number).stdout == f"{number}\n"
    assert tfm("run", *tell).stdout == f"{int(number) + 1}\n"


def test_nobody_is_notified_of_a_job_that_never_was(controller, tmp_path):
    note = tmp_path / "note"
    assert tfm("submit", "--notify", f"touch {note}", "--", "no-such-program").returncode == 127
    assert not note.exists()
    result = tfm("run", "--notify", f"touch {note}", "--", "true")
    assert result.returncode == 2
    assert result.stderr == "tfm: --notify is for jobs in the background: give --detach, too\n"


def test_without_a_controller_nothing_is_started(outputs, socket):
    result = tfm("submit", "--", "true")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        f"tfm: no controller answers at {socket}; start one with: tfm controller --detach\n"
    )
    assert list(outputs.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--min", "2", "--max", "1", "--", "true"], 2, "a shape must have"),
        (["--min", "9999", "--", "true"], 2, "min must be at most 1"),
        (["--", "no-such-program"], 127, "there is no program 'no-such-program'"),
    ],
)
def test_what_is_refused_is_said_in_the_terminal(controller, outputs, arguments, code, said):
    result = tfm("submit", *arguments)
    assert (result.returncode, result.stdout) == (code, "")
    assert said in result.stderr
    assert not outputs.exists() or list(outputs.iterdir()) == []


def test_inside_a_job_it_is_refused(controller):
    result = tfm("run", "--", TFM, "submit", "--", "true")
    assert (result.returncode, result.stdout) == (1, "")
    assert "this is part of job 1, and would end with it" in result.stderr


def test_other_jobs_have_no_output(controller):
    with running("--name", "one"):
        result = tfm("logs", "one")
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr == (
        "tfm: no output is known of job 1 (one): only that of your own jobs, started by"
        " tfm submit\n"
    )


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_a_path_that_somebody_made_up_is_not_read(controller, tmp_path, kind):
    path = tmp_path / "made-up"
    if kind == "link":
        path.symlink_to("/etc/passwd")
    else:
        os.mkfifo(path)
    with job(controller.socket) as speaker:
        speaker.submit(name="x", output=str(path))
        result = tfm("logs", "x")
    assert (result.returncode, result.stdout) == (1, "")
    assert str(path) in result.stderr


@pytest.mark.slow
def test_the_last_lines_are_printed(controller):
    number = submitted(*shell("seq 30000; printf end"))
    tfm("wait", number)
    every = [*map(str, range(1, 30001)), "end"]
    for lines in (0, 1, 2, 20000, 30000, 30001, 99999):
        result = tfm("logs", "-n", str(lines), number)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout == "\n".join(every[max(0, len(every) - lines) :])
    assert tfm("logs", "-n", "-1", number).returncode == 2
    number = submitted("--", "seq", "5")
    tfm("wait", number)
    assert tfm("logs", "-n", "2", number).stdout == "4\n5\n"


@pytest.mark.slow
@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two CPUs")
def test_outputs_of_several_jobs_have_their_names(tmp_path, outputs):
    with controllers.controller(tmp_path, "--policy", "equal"):
        submitted("--name", "ended", *shell("echo gone"))
        tfm("wait", "ended")
        gate = tmp_path / "gate"
        wait = f"until [ -e {gate} ]; do sleep 0.05; done"
        program = shell(f"echo $TF_MALLEABLE_ARRAY_INDEX; {wait}; printf over")
        result = tfm("submit", "--array", "7-8", "--name", "part", "--max", "1", *program)
        assert result.stdout == "2\n3\n"
        first = {"2 part[7]: 7", "3 part[8]: 8"}
        wait_for(lambda: set(tfm("logs", "--all").stdout.splitlines()) == first)
        assert tfm("logs", "ended", "2").stdout.splitlines() == ["1 ended: gone", "2 part[7]: 7"]
        with started("logs", "-f", "part") as following:
            gate.touch()
            assert following.wait(DEADLINE) == 0
            assert following.stdout is not None
            lines = following.stdout.read().splitlines()
        assert set(lines) == {*first, "2 part[7]: over", "3 part[8]: over"}
        assert sorted(tfm("logs", "part").stdout.splitlines()) == sorted(lines)
        assert tfm("logs", "--all").stdout == ""
    for words in ([], ["--all", "1"]):
        result = tfm("logs", *words)
        sentence = "tfm: give either a JOB, --group or --all; tfm jobs lists the jobs\n"
        assert (result.returncode, result.stderr) == (2, sentence)
