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
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import click

from tf_malleable.api.schema.job_request import JobRequest
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.background.outputs import keep, output_folder, write_exit
from tf_malleable.cli.background.stored_job import (
    StoredJob,
    forget,
    stored_file,
    stored_job,
)
from tf_malleable.cli.ended_jobs import find_ended
from tf_malleable.cli.launch.attempts import (
    Attempt,
    Keeper,
    LastAttempt,
    attempts,
    await_end,
    fork,
    is_to_end,
)
from tf_malleable.cli.launch.queue import JOB
from tf_malleable.cli.launch.run_options import RunOptions
from tf_malleable.controller.state.exit_file import RecordedExit, exit_file
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.model import OperationError


class Background(Attempt):
    """The process in the background, before it becomes the program."""

    def __init__(self, telling: int, stored: StoredJob, file: int, terminal: int | None) -> None:
        """Create the state.

        Args:
            telling: Descriptor of the pipe to the keeper.
            stored: The job, as stored in this attempt.
            file: Descriptor of the output file.
            terminal: Descriptor of the pipe to the process in the terminal; None if that already
                has the job's id.
        """
        super().__init__(telling)
        self.output = Path(stored.output)
        self.is_patient = terminal is None
        self._stored = stored
        self._file = file
        self._terminal = terminal

    def submitted(self, job: str) -> None:
        """Report the job's id and leave the terminal; only the first call has an effect.

        Until then errors go to the terminal, afterwards to the output file.
        """
        if self._stored.job != job:
            self._store(replace(self._stored, job=job), durably=False)
        super().submitted(job)
        if self._terminal is None:
            return
        with suppress(BrokenPipeError):  # The process in the terminal has ended.
            os.write(self._terminal, f"{job}\n".encode())
        os.close(self._terminal)
        self._terminal = None
        os.dup2(self._file, 1)
        os.dup2(self._file, 2)

    def admitted(self) -> None:
        """Record that the program starts: if it is interrupted, that was not in the queue."""
        # The disk must have it before the program does anything that must not be done twice.
        self._store(replace(self._stored, started=True), durably=True)

    def _store(self, stored: StoredJob, *, durably: bool) -> None:
        self._stored = stored
        with suppress(OperationError):  # On a full disk, only a reboot would do harm.
            stored.save(durably=durably)


class _BackgroundKeeper(Keeper):
    """The keeper: records exits, and writes to the output file what the user should know."""

    patience = math.inf  # Nobody waits for it, and the next attempt needs the controller anyway.

    def __init__(self, stored: StoredJob, inherited: list[int]) -> None:
        """Create the state.

        Args:
            stored: The job, as stored before its first attempt here.
            inherited: Descriptors to close once the first attempt has started.
        """
        self.inherited = inherited
        self.first = stored.attempt
        self._output = Path(stored.output)

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
            write_exit(self._output, RecordedExit(last.code, last.signal, job=last.job))


def continue_in_background(
    options: RunOptions, request: JobRequest, again: StoredJob | None = None
) -> Background:
    """Continue in a background process; in the calling one, print the job's id and exit.

    Args:
        options: Options of the command.
        request: Request of the job.
        again: The job, if it is submitted again, by a process that has claimed its output; None
            for a new one.

    Raises:
        OperationError: The output file cannot be created, or a process cannot be started.
        SystemExit: In the calling process, with 0 once the job is submitted, and otherwise
            with the exit code of the background process.
    """
    if again is None:
        output, file = _new_output()
        stored = StoredJob.of_this_process(output, options, request)
    else:
        output, stored = Path(again.output), again
        file = _open_again(output)
    reading, writing = os.pipe()
    keeper = fork()
    if keeper:
        os.close(writing)
        _await_id(reading, keeper, output if again is None else None)
    os.close(reading)
    os.setsid()
    if again is None:
        keep(output)
    stored.save(durably=True)
    beside = _BackgroundKeeper(stored, [writing, file])
    try:
        found = attempts(options.retries, options.socket, beside)
    except OperationError:
        if beside.inherited:
            raise  # To the terminal: the first attempt could not be started.
        os._exit(1)
    if isinstance(found, LastAttempt):
        _end(found, output, options.socket, options.notify)
    number, telling = found
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    if number == beside.first:
        return Background(telling, stored, file, writing)
    for descriptor in (1, 2):
        os.dup2(file := _open_again(output), descriptor)
    return Background(telling, replace(stored, attempt=number, job=None), file, None)


def _open_again(output: Path) -> int:
    """Return a descriptor of the output file of earlier attempts.

    Raises:
        OperationError: The file cannot be written.
    """
    try:
        return os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    except OSError as error:
        raise OperationError(f"cannot write {output}: {error.strerror}") from None


def _new_output() -> tuple[Path, int]:
    """Return a new file that only the user may read, and its descriptor."""
    folder = output_folder()
    path = folder / f"{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    try:
        with TrustedFolder(folder, 0o700) as inside:
            return path, inside.open(path.name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
    except OSError as error:
        raise OperationError(f"cannot write {path}: {error.strerror}") from None


def _await_id(reading: int, keeper: int, output: Path | None) -> NoReturn:
    """Print the job's id and exit; without an id, exit as the background process did.

    Args:
        reading: Descriptor of the pipe from the background.
        keeper: Pid of the background process.
        output: Output file, which is deleted if there is no job; None to keep it.
    """
    with open(reading) as pipe:
        job = pipe.readline().strip()
    if job:
        click.echo(job)
        sys.exit(0)
    _, status = os.waitpid(keeper, 0)
    if output is not None:
        for path in (output, exit_file(output), stored_file(output)):
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
    """Run the notify command, if any, once the job has ended; exit as the program did.

    A job whose end was requested from this process, as when the host shuts down, stays stored.
    """
    if last.job is None:
        os._exit(last.code)
    if is_to_end(last):
        stored = stored_job(output)
        if stored is not None and not last.is_next_interrupted:
            with suppress(OperationError):
                replace(stored, is_interrupted=True).save()
        os._exit(last.code)
    forget(output)
    try:
        if notify is not None:
            await_end(Client(Path(socket)), last.job)
            said = {
                "": last.job,
                "_EXIT_CODE": str(last.code),
                "_CAUSE": _cause(socket, last),
                "_OUTPUT": str(output),
            }
            known = {f"{JOB}{name}": value for name, value in said.items()}
            # The names of earlier versions.
            known |= {f"TFM{name or '_JOB'}": value for name, value in said.items()}
            signal.pthread_sigmask(signal.SIG_UNBLOCK, signal.valid_signals())
            os.execvpe("sh", ["sh", "-c", notify], {**os.environ, **known})
    finally:
        os._exit(last.code)
