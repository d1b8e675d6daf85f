# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs a program in the background, so that it outlives the terminal.

Three processes: the one in the terminal prints the job's id and exits; a keeper waits for
the program, as only a parent learns an exit code on every kernel; the third becomes the
program.
"""

from __future__ import annotations

import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click

from tf_malleable.cli.outputs import exit_file
from tf_malleable.controller.state.location import default_state
from tf_malleable.model import OperationError


class Background:
    """The process in the background, before it becomes the program.

    Attributes:
        output: File for what the program prints.
    """

    def __init__(self, output: Path, file: int, reports: tuple[int, ...]) -> None:
        """Create it.

        Args:
            output: File for what the program prints.
            file: Its descriptor.
            reports: The pipes to the process in the terminal and to the keeper.
        """
        self.output = output
        self._file = file
        self._reports = reports

    def submitted(self, job: str) -> None:
        """Tell the job's id and leave the terminal; only the first call does anything.

        Until then errors go to the terminal, later to the output file.
        """
        if not self._reports:
            return
        for report in self._reports:
            with suppress(BrokenPipeError):  # Nobody waits for it.
                os.write(report, f"{job}\n".encode())
            os.close(report)
        self._reports = ()
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)


def continue_in_background(notify: str | None = None) -> Background:
    """Go on in a process in the background; in the present one, print the job's id and exit.

    Args:
        notify: A command for the shell to run when the job has ended; None for none.

    Raises:
        OperationError: There can be no file for the output, or no process.
        SystemExit: In the present process, with 0 once the job is submitted, and otherwise
            with the exit code of the one in the background.
    """
    output, file = _new_output()
    reading, writing = os.pipe()
    keeper = _fork()
    if keeper:
        os.close(writing)
        _await_id(reading, keeper, output)
    os.close(reading)
    os.setsid()
    hearing, telling = os.pipe()
    program = _fork()
    if program:
        for descriptor in (writing, telling, file):
            os.close(descriptor)
        _keep(program, output, hearing, notify)
    os.close(hearing)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    return Background(output, file, (writing, telling))


def _new_output() -> tuple[Path, int]:
    """Return a new file that only the user may read, and its descriptor."""
    folder = default_state().parent / "output"
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return path, os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        raise OperationError(f"cannot write {path}: {error.strerror}") from None


def _fork() -> int:
    try:
        return os.fork()
    except OSError as error:
        raise OperationError(f"cannot start a process: {error.strerror}") from None


def _await_id(reading: int, keeper: int, output: Path) -> NoReturn:
    """Print the job's id and exit; without one, exit as the process in the background did."""
    with open(reading) as pipe:
        job = pipe.readline().strip()
    if job:
        click.echo(job)
        sys.exit(0)
    _, status = os.waitpid(keeper, 0)
    for path in (output, exit_file(output)):
        path.unlink(missing_ok=True)
    code = os.waitstatus_to_exitcode(status)
    sys.exit(code if code >= 0 else 1)


def _keep(program: int, output: Path, hearing: int, notify: str | None) -> NoReturn:
    """Wait for the program, write down its exit code, and notify whoever wants to know."""
    # Whoever reads what the terminal's process prints must not wait for the keeper.
    null = os.open(os.devnull, os.O_RDWR)
    for descriptor in (0, 1, 2):
        os.dup2(null, descriptor)
    code = 1
    try:
        # It is submitted, or has ended before: nobody else has the other end.
        job = os.read(hearing, 64).decode().strip()
        os.close(hearing)
        _, status = os.waitpid(program, 0)
        code = os.waitstatus_to_exitcode(status)
        code = code if code >= 0 else 128 - code
        exit_file(output).write_text(f"{code}\n")
        if notify is not None and job:
            said = {"TFM_JOB": job, "TFM_EXIT_CODE": str(code), "TFM_OUTPUT": str(output)}
            os.execvpe("sh", ["sh", "-c", notify], {**os.environ, **said})
    finally:
        os._exit(code)
