# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Jobs of tfm submit while no controller runs, as in a night after its terminal was closed."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.conftest import ONE_CPU
from tests.support.accounts import stored_jobs
from tests.support.commands import submitted, tfm
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE

pytestmark = pytest.mark.usefixtures("outputs")


# A session with a terminal, in which a controller is started as by a shell's "&".
SHELL = """
import fcntl, os, sys, termios
os.setsid()
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if not os.fork():
    os.setpgid(0, 0)
    os.execvp(sys.argv[1], sys.argv[1:])
sys.stdin.read()
"""


def waiting_for(path: Path, then: str) -> list[str]:
    """Return a program that waits until there is a file."""
    return ["--", "sh", "-c", f"until [ -e {path} ]; do sleep 0.1; done; {then}"]


def wait_for_start(outputs: Path) -> None:
    """Wait until the program of the only job starts, for which it needs the controller."""
    wait_for(lambda: [each["started"] for each in stored_jobs(outputs)] == [True])


def ended(outputs: Path) -> list[Path]:
    """Return the exit files that say something."""
    return [path for path in outputs.glob("*.exit") if path.read_text()]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("then", "outcome", "code"), [("exit 0", "finished", 0), ("exit 3", "failed", 3)]
)
def test_an_end_that_no_controller_saw_is_in_the_history(
    start, outputs, tmp_path, then, outcome, code
):
    go = tmp_path / "go"
    first = start()
    number = submitted(*waiting_for(go, then))
    wait_for_start(outputs)
    first.stop(signal.SIGHUP)
    go.touch()
    (recorded,) = wait_for(lambda: ended(outputs))
    time.sleep(1.5)  # Which does not count.
    (job,) = start().get("/v1/history?spans=true")["jobs"]
    assert (job["id"], job["outcome"], job["exit_code"]) == (number, outcome, code)
    assert job["ended"] == pytest.approx(recorded.stat().st_mtime, abs=0.5)
    assert job["service_seconds"] == pytest.approx(job["ended"] - job["started"], abs=0.5)
    result = tfm("wait", number)
    assert result.returncode == code
    assert result.stdout == f"job {number} (sh): {outcome}, exit code {code}\n"


def test_the_cores_of_that_time_are_in_the_history_too(start, outputs, tmp_path):
    go = tmp_path / "go"
    first = start()
    submitted(*waiting_for(go, "exit 0"))
    wait_for_start(outputs)
    first.stop()
    go.touch()
    wait_for(lambda: ended(outputs))
    found = start().get("/v1/history?spans=true")
    (job,) = found["jobs"]
    assert max(each["end"] for each in found["spans"]) == job["ended"]


def test_the_queue_survives(start, tmp_path):
    go = tmp_path / "go"
    first = start()
    submitted("--name", "first", *waiting_for(go, "exit 0"))
    second = submitted("--name", "second", "--", "echo", "ran")
    first.stop(signal.SIGHUP)
    again = start()
    assert [each["id"] for each in again.get("/v1/jobs")["jobs"]] == ["1", second]
    go.touch()
    assert tfm("wait", second).returncode == 0
    assert tfm("logs", second).stdout.endswith("ran\n")


@pytest.mark.slow
def test_what_failed_meanwhile_is_started_again(start, outputs, tmp_path):
    go, tries = tmp_path / "go", tmp_path / "tries"
    first = start()
    number = submitted("--retries", "1", *waiting_for(go, f"echo x >> {tries}; exit 4"))
    wait_for_start(outputs)
    first.stop()
    go.touch()
    wait_for(lambda: ended(outputs))
    again = start()
    assert tfm("wait", number).returncode == 4
    jobs = again.get("/v1/history")["jobs"]
    assert [(each["outcome"], each["exit_code"]) for each in jobs] == [("failed", 4)] * 2
    assert tries.read_text() == "x\n" * 2


def test_a_file_that_somebody_made_up_ends_no_job_in_the_future(start, outputs, tmp_path):
    go = tmp_path / "go"
    first = start()
    submitted(*waiting_for(go, "exit 0"))
    wait_for_start(outputs)
    first.stop()
    go.touch()
    (recorded,) = wait_for(lambda: ended(outputs))
    os.utime(recorded, (1e11, 1e11))
    (job,) = start().get("/v1/history")["jobs"]
    assert job["ended"] <= time.time() + 1


def test_a_controller_in_the_background_outlives_its_terminal(tmp_path, socket):
    ours, terminal = pty.openpty()
    command = [sys.executable, "-m", "tf_malleable_cli", "controller", *ONE_CPU]
    command += ["--state", str(tmp_path / "state.db")]
    shell = subprocess.Popen(
        [sys.executable, "-c", SHELL, *command], stdin=terminal, stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    said = b""
    while b"listening at" not in said:
        said += os.read(ours, 4096)
    controller = int(Path(f"/proc/{shell.pid}/task/{shell.pid}/children").read_text().split()[0])
    try:
        os.close(ours)
        shell.wait(DEADLINE)
        os.killpg(controller, signal.SIGHUP)  # As a shell does.
        assert submitted("--", "true") == "1"
        assert tfm("wait", "1").returncode == 0
    finally:
        os.kill(controller, signal.SIGTERM)
        wait_for(lambda: not socket.exists())
