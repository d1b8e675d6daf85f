# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Background jobs: runs a program so that it outlives the terminal.

There are three processes. The one in the terminal prints the job's id and exits. A keeper
waits for the program, as only the parent learns an exit code on every kernel. The third
process becomes the program. With --retries the keeper starts further ones, which share the
output file.
"""

from __future__ import annotations

import math
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import click

from tf_malleable.api.transport.client import Client
from tf_malleable.cli.ended_jobs import find_ended
from tf_malleable.cli.launch.attempts import (
    Attempt,
    Keeper,
    LastAttempt,
    attempts,
    await_end,
    fork,
)
from tf_malleable.cli.launch.outputs import keep, write_exit
from tf_malleable.controller.state.exit_file import RecordedExit, exit_file
from tf_malleable.controller.state.location import default_state
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.model import OperationError


class Background(Attempt):
    """The process in the background, before it becomes the program."""

    def __init__(self, telling: int, output: Path, file: int, terminal: int | None) -> None:
        """Create the state.

        Args:
            telling: Descriptor of the pipe to the keeper.
            output: Output file of the program.
            file: Descriptor of the output file.
            terminal: Descriptor of the pipe to the process in the terminal; None if that already
                has the job's id.
        """
        super().__init__(telling)
        self.output = output
        self._file = file
        self._terminal = terminal

    def submitted(self, job: str) -> None:
        """Report the job's id and leave the terminal; only the first call has an effect.

        Until then errors go to the terminal, afterwards to the output file.
        """
        super().submitted(job)
        if self._terminal is None:
            return
        with suppress(BrokenPipeError):  # The process in the terminal has ended.
            os.write(self._terminal, f"{job}\n".encode())
        os.close(self._terminal)
        self._terminal = None
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)


class _BackgroundKeeper(Keeper):
    """The keeper: records exits, and writes to the output file what the user should know."""

    patience = math.inf  # Nobody waits for it, and the next attempt needs the controller anyway.

    def __init__(self, output: Path, inherited: list[int]) -> None:
        """Create the state.

        Args:
            output: Output file of the program.
            inherited: Descriptors to close once the first attempt has started.
        """
        self.inherited = inherited
        self._output = output

    def say(self, sentence: str) -> None:
        """Append a line to the output file."""
        with suppress(OSError), self._output.open("a") as log:
            log.write(f"tfm: {sentence}\n")

    def forked(self) -> None:
        """Leave the terminal: a reader of the first process's output must not wait for this one."""
        if not self.inherited:
            return
        null = os.open(os.devnull, os.O_RDWR)
        for descriptor in (0, 1, 2):
            os.dup2(null, descriptor)
        for descriptor in {null, *self.inherited} - {0, 1, 2}:
            os.close(descriptor)
        self.inherited = []

    def ended(self, last: LastAttempt) -> None:
        """Record the exit, for a controller that is away."""
        with suppress(OSError):
            write_exit(self._output, RecordedExit(last.code, last.signal))


def continue_in_background(socket: str, retries: int, notify: str | None = None) -> Background:
    """Continue in a background process; in the calling one, print the job's id and exit.

    Args:
        socket: Path of the controller's socket.
        retries: Maximum number of restarts if the program fails.
        notify: Shell command to run when the job has ended; None for none.

    Raises:
        OperationError: The output file cannot be created, or a process cannot be started.
        SystemExit: In the calling process, with 0 once the job is submitted, and otherwise
            with the exit code of the background process.
    """
    output, file = _new_output()
    reading, writing = os.pipe()
    keeper = fork()
    if keeper:
        os.close(writing)
        _await_id(reading, keeper, output)
    os.close(reading)
    os.setsid()
    if retries:
        keep(output)
    beside = _BackgroundKeeper(output, [writing, file])
    try:
        found = attempts(retries, socket, beside)
    except OperationError:
        if beside.inherited:
            raise  # To the terminal: the first attempt could not be started.
        os._exit(1)
    if isinstance(found, LastAttempt):
        _end(found, output, socket, notify)
    number, telling = found
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    if number == 1:
        return Background(telling, output, file, writing)
    return Background(telling, output, _output_again(output), None)


def _output_again(output: Path) -> int:
    """Open the output file of earlier attempts as stdout and stderr; return its descriptor."""
    again = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    for descriptor in (1, 2):
        os.dup2(again, descriptor)
    return again


def _new_output() -> tuple[Path, int]:
    """Return a new file that only the user may read, and its descriptor."""
    folder = default_state().parent / "output"
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        with TrustedFolder(folder, 0o700) as inside:
            return path, inside.open(path.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
    except OSError as error:
        raise OperationError(f"cannot write {path}: {error.strerror}") from None


def _await_id(reading: int, keeper: int, output: Path) -> NoReturn:
    """Print the job's id and exit; without an id, exit as the background process did."""
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


def _cause(socket: str, last: LastAttempt) -> str:
    """Return what has ended a job, according to the controller, or else to its keeper."""
    assert last.job is not None
    with suppress(OperationError):
        if (record := find_ended(Client(Path(socket)), last.job)) is not None:
            return record.cause or ""
    return "" if last.signal is None else f"signal {last.signal}"


def _end(last: LastAttempt, output: Path, socket: str, notify: str | None) -> NoReturn:
    """Run the notify command, if any, once the job has ended; exit as the program did."""
    try:
        if notify is not None and last.job is not None:
            await_end(Client(Path(socket)), last.job)
            said = {
                "TFM_JOB": last.job,
                "TFM_EXIT_CODE": str(last.code),
                "TFM_CAUSE": _cause(socket, last),
                "TFM_OUTPUT": str(output),
            }
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
            os.execvpe("sh", ["sh", "-c", notify], {**os.environ, **said})
    finally:
        os._exit(last.code)
