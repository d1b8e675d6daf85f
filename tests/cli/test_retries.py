# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""--retries: what fails is started again, unless somebody wanted its end."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.support.commands import running, started, tfm
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE
from tests.support.descriptors import open_files

pytestmark = pytest.mark.usefixtures("outputs")


@pytest.fixture
def tries(tmp_path):
    """A file to which each attempt adds a line."""
    path = tmp_path / "tries"
    path.touch()
    return path


def failing(tries, code: int, until: int) -> list[str]:
    """Return a program that fails in all attempts before this one."""
    enough = f"test $(wc -l < {tries}) -ge {until}"
    return ["--", "sh", "-c", f"echo x >> {tries}; {enough} || exit {code}"]


def attempts(text: str) -> list[str]:
    """Return the lines about attempts; others may be about waiting for cores."""
    return [line for line in text.splitlines() if "attempt" in line]


def outcomes(controller) -> list[str]:
    return [each["outcome"] for each in controller.get("/v1/history")["jobs"]]


@contextmanager
def between_attempts(controller, tries) -> Iterator[tuple[str, int, Path]]:
    """A job whose keeper has decided on a second attempt, which begins at the end of this with.

    Yields:
        Id of the job, pid of the keeper, and its output, a pipe that is full until then.
    """
    go = tries.with_name("go")
    command = failing(tries, 4, until=2)
    command[-1] = f"until [ -e {go} ]; do sleep 0.1; done; {command[-1]}"
    job = tfm("submit", "--retries", "1", *command).stdout.strip()
    about = wait_for(lambda: (found := controller.get(f"/v1/jobs/{job}"))["granted"] and found)
    keeper = int(Path(f"/proc/{about['pid']}/stat").read_text().rpartition(")")[2].split()[1])
    output = Path(about["output"])
    output.unlink()
    os.mkfifo(output, 0o600)
    pipe = os.open(output, os.O_RDWR | os.O_NONBLOCK)

    try:
        with suppress(BlockingIOError):
            while True:
                os.write(pipe, bytes(4096))
        go.touch()
        wait_for(lambda: str(output) in open_files(keeper).values())
        yield job, keeper, output
        said = bytearray()

        def is_waiting() -> bool:
            with suppress(BlockingIOError):
                said.extend(os.read(pipe, 1 << 16))
            return b"waiting until it is back" in said

        wait_for(is_waiting)
    finally:
        os.close(pipe)


def test_a_controller_that_is_killed_between_attempts_is_waited_for(start, tries):
    first = start()
    with between_attempts(first, tries) as (job, _, _):
        first.process.kill()
        first.process.wait(DEADLINE)
    start()
    result = tfm("wait", job)
    assert (result.returncode, tries.read_text()) == (0, "x\n" * 2)


@pytest.mark.slow
def test_an_attempt_that_a_reboot_keeps_from_its_start_is_made_after_it(start, tries):
    first = start()
    with between_attempts(first, tries) as (job, keeper, output):
        first.process.kill()
        first.process.wait(DEADLINE)
    (attempt,) = Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()
    for pid in (keeper, int(attempt)):
        os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not Path(f"/proc/{keeper}").exists())
    output.unlink()
    start()
    result = tfm("wait", job)
    assert (result.returncode, tries.read_text()) == (0, "x\n" * 2)


def test_what_fails_is_started_again_as_a_new_job(controller, tries):
    result = tfm("run", "--retries", "2", "--name", "try", *failing(tries, 4, until=3))
    assert (result.returncode, result.stdout) == (0, "")
    assert attempts(result.stderr) == [
        "tfm: job 1 ended with exit code 4; attempt 2 of 3 begins",
        "tfm: job 2 ended with exit code 4; attempt 3 of 3 begins",
    ]
    assert tries.read_text() == "x\n" * 3
    history = controller.get("/v1/history")["jobs"]
    assert [(each["id"], each["name"]) for each in history] == [(n, "try") for n in "123"]


def test_the_exit_code_is_that_of_the_last_attempt(controller, tries):
    result = tfm("run", "--retries", "1", *failing(tries, 5, until=9))
    assert result.returncode == 5
    assert len(attempts(result.stderr)) == 1
    assert tries.read_text() == "x\n" * 2


def test_what_succeeds_and_what_is_refused_is_not_started_again(controller, tries):
    result = tfm("run", "--retries", "3", *failing(tries, 4, until=1))
    assert (result.returncode, attempts(result.stderr)) == (0, [])
    assert tries.read_text() == "x\n"
    result = tfm("run", "--retries", "3", "--", "no-such-program")
    assert result.returncode == 127
    assert result.stderr == "tfm: there is no program 'no-such-program'\n"
    result = tfm("run", "--retries", "3", "--min", "9999", "--", "true")
    assert result.returncode == 2
    assert len(result.stderr.splitlines()) == 1


def test_without_a_controller_the_exit_code_decides(tries, socket):
    result = tfm("run", "--retries", "2", *failing(tries, 4, until=2))
    assert result.returncode == 0
    alone = f"tfm: no controller answers at {socket}, running alone"
    again = "tfm: the program ended with exit code 4; attempt 2 of 3 begins"
    assert result.stderr.splitlines() == [alone, again, alone]


def test_in_the_background_all_attempts_are_one_to_whoever_waits(controller, tries, outputs):
    result = tfm("submit", "--retries", "2", *failing(tries, 4, until=3))
    assert (result.returncode, result.stdout, result.stderr) == (0, "1\n", "")
    result = tfm("wait", "1")
    assert result.returncode == 0
    assert result.stdout.startswith("job 3 (sh): ")
    assert tries.read_text() == "x\n" * 3
    for job in "123":
        assert attempts(tfm("logs", job).stdout) == [
            "tfm: job 1 ended with exit code 4; attempt 2 of 3 begins",
            "tfm: job 2 ended with exit code 4; attempt 3 of 3 begins",
        ]
    (output,) = outputs.glob("*.log")
    assert output.with_suffix(".exit").read_text() == "0 job 3\n"


@pytest.mark.slow
def test_the_output_is_followed_to_the_end_of_the_last_attempt(controller, tries):
    program = f"echo x >> {tries}; wc -l < {tries}; sleep 1; exit 3"
    job = tfm("submit", "--retries", "1", "--", "sh", "-c", program).stdout.strip()
    with started("logs", "-f", job) as following:
        said, _ = following.communicate(timeout=DEADLINE)
    assert [line for line in said.splitlines() if line.isdigit()] == ["1", "2"]
    assert tfm("wait", job).returncode == 3


def test_somebody_is_notified_once(controller, tries, tmp_path):
    note = tmp_path / "note"
    command = f"echo $TFM_JOB $TFM_EXIT_CODE >> {note}.new; mv {note}.new {note}"
    tfm("submit", "--retries", "1", "--notify", command, *failing(tries, 4, until=9))
    wait_for(note.exists)
    assert note.read_text() == "2 4\n"


def test_what_is_cancelled_is_not_started_again(controller):
    job = tfm("submit", "--retries", "3", "--", "sleep", "600").stdout.strip()
    assert tfm("cancel", job).returncode == 0
    assert tfm("wait", job).returncode == 128 + signal.SIGTERM
    assert outcomes(controller) == ["cancelled"]


def test_nor_is_what_is_cancelled_in_the_queue(controller):
    with running("--name", "first"):
        job = tfm("submit", "--retries", "3", "--", "true").stdout.strip()
        assert tfm("cancel", job).returncode == 0
        assert tfm("wait", job).returncode != 0
        assert [each["name"] for each in controller.get("/v1/jobs")["jobs"]] == ["first"]


@pytest.mark.slow
def test_nor_is_what_has_reached_its_time_limit(controller):
    command = ["--time-limit", "1s", "--", "sleep", "600"]
    result = tfm("run", "--retries", "3", *command)
    assert (result.returncode, attempts(result.stderr)) == (-signal.SIGTERM, [])
    assert outcomes(controller) == ["cancelled"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_nor_is_what_a_signal_was_to_end(controller, number):
    with running("--retries", "3") as process:
        job = controller.get("/v1/jobs/1")["pid"]
        assert job != process.pid
        process.send_signal(number)
        assert process.wait(DEADLINE) == -number
        wait_for(lambda: not os.path.exists(f"/proc/{job}"))
        wait_for(lambda: len(outcomes(controller)) == 1)
        assert controller.get("/v1/jobs")["jobs"] == []


def test_what_something_else_kills_is_started_again(controller):
    with running("--retries", "1") as process:
        os.kill(controller.get("/v1/jobs/1")["pid"], signal.SIGKILL)
        assert process.stdout is not None
        assert process.stdout.readline() == "started\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(DEADLINE) == -signal.SIGTERM


@pytest.mark.parametrize("number", ["-1", "1001"])
@pytest.mark.parametrize("command", ["run", "submit"])
def test_how_often_has_bounds(command, number, outputs):
    result = tfm(command, f"--retries={number}", "--", "true")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"tfm: --retries must be an integer from 0 to 1000, not {number}\n"
    assert not outputs.exists()
