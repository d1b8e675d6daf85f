# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs a program again if it fails: each attempt is a process, and a job, of its own.

The process that starts them is no part of the jobs. It passes signals on to the present
attempt, as the program does not replace it.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.api.client import Client
from tf_malleable.cli.ended import find_ended
from tf_malleable.cli.queue import say
from tf_malleable.model import OperationError

# Who sends one of these wants no more attempts.
_ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_PASSED_ON: Final = _ENDING | {signal.SIGUSR1, signal.SIGUSR2}
# A controller may restart meanwhile.
_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1


class Attempt:
    """This process is an attempt. It says so once it begins.

    Attributes:
        output: File for what the program prints in the background; None in the foreground.
    """

    output: Path | None = None

    def __init__(self, telling: int) -> None:
        """Create it.

        Args:
            telling: The pipe to the process that started it.
        """
        self._telling: int | None = telling

    def submitted(self, job: str) -> None:
        """Tell the job's id; only the first call does anything."""
        self._tell(job)

    def alone(self) -> None:
        """Tell that it is no job of its own."""
        self._tell("")

    def _tell(self, job: str) -> None:
        if self._telling is not None:
            with suppress(BrokenPipeError):  # Nobody waits for it.
                os.write(self._telling, f"{job}\n".encode())
            os.close(self._telling)
            self._telling = None


@dataclass(frozen=True)
class LastAttempt:
    """There are no more attempts.

    Attributes:
        code: The exit code, as in a shell.
        job: The job's id; None if it was none.
    """

    code: int
    job: str | None


def continue_in_attempts(socket: str, retries: int) -> Attempt:
    """Go on in a process for each attempt; the present one exits as the last of them.

    Args:
        socket: The controller's.
        retries: There are so many attempts after the first one.

    Raises:
        OperationError: There can be no process.
        SystemExit: In the present process.
    """
    found = attempts(retries, socket, say)
    if isinstance(found, LastAttempt):
        sys.exit(found.code)
    _, telling = found
    return Attempt(telling)


def attempts(
    retries: int,
    socket: str,
    tell: Callable[[str], None],
    forked: Callable[[], None] = lambda: None,
) -> tuple[int, int] | LastAttempt:
    """Go on in a new process, and in another one each time that one fails.

    There are no more after one that was refused, which counts for nothing, was cancelled, has
    reached its time limit, or was to be ended by a signal to the present process.

    Args:
        retries: There are so many attempts after the first one.
        socket: The controller's.
        tell: Tells the user something in one line.
        forked: Called in the present process after each attempt's start.

    Returns:
        In a new process the attempt's number, from 1, and a pipe for an Attempt. In the
        present one the last attempt, once it has ended.

    Raises:
        OperationError: There can be no process.
    """
    passed_on = {number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed_on | {signal.SIGCHLD})
    number = 1
    last: LastAttempt | None = None
    while True:
        hearing, telling = os.pipe()
        program = fork()
        if not program:
            os.close(hearing)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return number, telling
        os.close(telling)
        forked()
        with open(hearing) as pipe:
            said = pipe.read()
        job = said.strip() or None
        code, is_unwanted = _wait(program, passed_on)
        if not said and last is not None:
            return last
        last = LastAttempt(code, job)
        # One that has said nothing was refused, or is no program.
        if code == 0 or number > retries or not said or is_unwanted:
            return last
        what = "the program" if job is None else f"job {job}"
        if job is not None:
            is_cancelled = _is_cancelled(Client(Path(socket)), job)
            if is_cancelled is None:
                tell(f"cannot find out whether {what} was cancelled, so it is not started again")
            if is_cancelled is not False:
                return last
        if signal.sigpending() & _ENDING:
            return last
        number += 1
        tell(f"{what} ended with exit code {code}; attempt {number} of {retries + 1} begins")


def fork() -> int:
    """Fork this process.

    Raises:
        OperationError: There can be no process.
    """
    try:
        return os.fork()
    except OSError as error:
        raise OperationError(f"cannot start a process: {error.strerror}") from None


def _wait(program: int, passed_on: set[signal.Signals]) -> tuple[int, bool]:
    """Pass signals on to a child until it ends.

    Returns:
        Its exit code as in a shell, and whether one of the signals was to end it.
    """
    is_unwanted = False
    while True:
        came = signal.sigwaitinfo(passed_on | {signal.SIGCHLD})
        if came.si_signo != signal.SIGCHLD:
            is_unwanted = is_unwanted or came.si_signo in _ENDING
            # What the kernel sends, as for Ctrl-C, the child has got itself.
            if came.si_code <= 0:
                os.kill(program, came.si_signo)
            continue
        ended, status = os.waitpid(program, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            return (code if code >= 0 else 128 - code), is_unwanted


def _is_cancelled(client: Client, job: str) -> bool | None:
    """Return whether a job that has just ended is recorded as cancelled; None if unknown."""
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while time.monotonic() < deadline:
        with suppress(OperationError):
            if all(each.id != job for each in client.jobs()):
                record = find_ended(client, job)
                return None if record is None else record.outcome == "cancelled"
        time.sleep(_POLL_SECONDS)
    return None
