# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Real programs as jobs: their limits under three grants, and their ends with and without us."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.support import controllers
from tests.support.commands import tfm
from tests.support.controllers import Controller
from tests.support.jobs import has_ended
from tf_malleable.linux.processes import procfs

# For a loaded machine.
ENDS = 300.0


def wait_for(condition: Callable[[], Any]) -> Any:
    """Wait until a condition about real programs holds; return what it returned."""
    return controllers.wait_for(condition, ENDS)


def job(controller: Controller) -> dict[str, Any]:
    """Return the only job."""
    (found,) = controller.get("/v1/jobs")["jobs"]
    return found


def follow(controller: Controller, threads: Callable[[], int | None]) -> None:
    """Check that a program's limit follows three grants, and that `actual` is true.

    Args:
        controller: The controller; the program is its only job, with one core.
        threads: Returns the limit that the program has now.
    """
    assert threads() == len(job(controller)["actual"]) == 1
    for cores in (2, 1, 2):
        assert tfm("set", job(controller)["id"], str(cores)).returncode == 0
        wait_for(lambda n=cores: len(job(controller)["actual"]) == n)
        # What is actual has been applied.
        assert threads() == cores
    check_malleable(controller)


def follow_reports(
    controller: Controller, process: subprocess.Popen[str], at: Callable[[int], Any]
) -> None:
    """Do the same for a program that prints its limits whenever they have changed.

    Args:
        controller: The controller.
        process: The program, which prints JSON.
        at: Returns what it prints with a number of cores.
    """
    await_report(process, at(1))
    for cores in (2, 1, 2):
        assert tfm("set", job(controller)["id"], str(cores)).returncode == 0
        wait_for(lambda n=cores: len(job(controller)["actual"]) == n)
        await_report(process, at(cores))
    check_malleable(controller)


def check_malleable(controller: Controller) -> None:
    """Check that the only job is said to be malleable."""
    assert job(controller)["malleable"]
    assert job(controller)["confined"] is None


def await_report(process: subprocess.Popen[str], expected: object) -> None:
    """Read lines of a program until one is this object as JSON."""
    assert process.stdout is not None
    heard = []
    while line := process.stdout.readline():
        heard.append(line)
        if line.startswith("[") and json.loads(line) == expected:
            return
    raise AssertionError(f"{heard}\n{process.stderr.read() if process.stderr else ''}")


def family(pid: int) -> list[int]:
    """Return a process and all its descendants."""
    return list(procfs.trees([pid])[pid])


def ended_by(process: subprocess.Popen[str], number: signal.Signals) -> int:
    """Send a program a signal; return its exit code once it and all its descendants have ended."""
    members = family(process.pid)
    process.send_signal(number)
    process.communicate(timeout=ENDS)
    wait_for(lambda: all(map(has_ended, members)))
    return process.returncode


def stock_end(
    command: Sequence[str], cwd: Path, ready: Callable[[subprocess.Popen[str]], Any]
) -> int:
    """Return the exit code of a program that gets SIGTERM without us, once it is ready."""
    stock = subprocess.Popen(
        command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        ready(stock)
        return ended_by(stock, signal.SIGTERM)
    finally:
        stock.kill()
        stock.communicate()
