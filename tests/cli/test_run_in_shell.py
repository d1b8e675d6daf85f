# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm run typed in a shell on a terminal: only the user stops it, as far as the shell knows."""

from __future__ import annotations

import os
import pty
import re
import select
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.commands import tfm
from tests.support.controllers import wait_for
from tests.support.deadline import DEADLINE

CTRL_C, CTRL_Z = b"\x03", b"\x1a"


class Shell:
    """An interactive shell on a terminal of its own.

    Attributes:
        said: What the terminal has shown.
    """

    def __init__(self):
        self.said = ""
        self._pid, self._terminal = pty.fork()
        if not self._pid:
            os.environ["PS1"] = "$ "
            os.execvp("bash", ["bash", "--norc", "--noprofile", "--noediting", "-i"])

    def __enter__(self):
        self.wait_for(r"\$ $")
        return self

    def __exit__(self, *_):
        for pid in self._session():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)
        print(self.said)

    def _session(self):
        """Yield the pids of the shell and of all that was started in it."""
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                if int(path.read_text().rpartition(")")[2].split()[3]) == self._pid:
                    yield int(path.parent.name)

    def type(self, text):
        """Type a line, or a key if it is bytes."""
        self.said = ""
        os.write(self._terminal, text if isinstance(text, bytes) else f"{text}\n".encode())

    def wait_for(self, pattern):
        """Wait until a pattern is in what the terminal has shown since the last input."""
        until = time.monotonic() + DEADLINE
        while not re.search(pattern, self.said, re.MULTILINE):
            assert time.monotonic() < until, self.said
            if select.select([self._terminal], [], [], 0.1)[0]:
                with suppress(OSError):
                    self.said += os.read(self._terminal, 4096).decode(errors="replace")


@pytest.fixture
def shell(controller):
    with Shell() as found:
        yield found


@pytest.fixture
def run(tmp_path):
    """The command line of a job that runs until there is a file."""
    # In brackets, or the shell would use vfork(2): if its child is stopped before it executes
    # sleep, the shell waits for it inside the kernel, and has no time to stop.
    program = f"echo begun; until [ -e {tmp_path}/go ]; do (sleep 0.1); done; echo d''one"
    return f'{sys.executable} -m tf_malleable_cli run -- sh -c "{program}"'


def is_stopped(controller):
    """Return whether the kernel has stopped the program of the only job."""
    (job,) = controller.get("/v1/jobs")["jobs"]
    return Path(f"/proc/{job['pid']}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_a_shell_does_not_see_that_a_job_is_paused(controller, shell, run, tmp_path):
    shell.type(f"{run} && echo chain $((40+2))")
    shell.wait_for("^begun")
    assert tfm("pause", "1").returncode == 0
    wait_for(lambda: is_stopped(controller))
    (tmp_path / "go").touch()
    assert tfm("resume", "1").returncode == 0
    shell.wait_for("^chain 42")
    assert "done" in shell.said
    assert "Stopped" not in shell.said


def test_ctrl_c_ends_a_paused_job_and_the_loop_around_it(controller, shell, run):
    shell.type(f"for i in 1 2 3; do {run}; done")
    shell.wait_for("^begun")
    assert tfm("pause", "1").returncode == 0
    wait_for(lambda: is_stopped(controller))
    shell.type(CTRL_C)
    shell.wait_for(r"\$ $")
    shell.type("echo code $?")
    shell.wait_for("code 130")
    # The shell may know it before the controller.
    history = wait_for(lambda: controller.get("/v1/history")["jobs"])
    assert [(each["id"], each["outcome"]) for each in history] == [("1", "cancelled")]


def test_ctrl_c_ends_a_job_that_waits_and_the_loop_around_it(controller, shell, run):
    shell.type(f"{run} > /dev/null & for i in 1 2 3; do {run}; done")
    shell.wait_for("^tfm: job . ")  # The one of both that waits.
    shell.type(CTRL_C)
    shell.wait_for(r"\$ $")
    shell.type("echo code $?")
    shell.wait_for("code 130")
    wait_for(lambda: len(controller.get("/v1/jobs")["jobs"]) == 1)


def test_ctrl_z_still_stops_a_job(shell, run, tmp_path):
    shell.type(run)
    shell.wait_for("^begun")
    shell.type(CTRL_Z)
    shell.wait_for("Stopped")
    (tmp_path / "go").touch()
    shell.type("fg")
    shell.wait_for("^done")
    shell.wait_for(r"\$ $")
    shell.type("echo code $?")
    shell.wait_for("code 0")


def test_a_signal_that_ends_the_program_ends_what_the_shell_waits_for(controller, shell, run):
    shell.type(run)
    shell.wait_for("^begun")
    (job,) = controller.get("/v1/jobs")["jobs"]
    os.kill(job["pid"], signal.SIGTERM)
    shell.wait_for("Terminated")
    shell.type("echo code $?")
    shell.wait_for("code 143")
