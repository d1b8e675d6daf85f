# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Attempts: runs a program as a child of tfm, and again if it fails, each time as a new job.

The process that starts the attempts does not belong to the jobs. It passes signals on to the
current attempt, as the program does not replace it. It also stays in front of a program that a
shell waits for, so that the shell does not see when the controller stops the program.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from tf_malleable.cli.messages import say
from tf_malleable.linux.processes import procfs
from tf_malleable.model.errors import OperationError

if TYPE_CHECKING:
    from tf_malleable.api.transport.client import Client

# Signals that request the end, so that there are no further attempts.
ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_PASSED_ON: Final = ENDING | {signal.SIGUSR1, signal.SIGUSR2}
# Time in which a restarting controller may come back.
_PATIENCE_SECONDS: Final = 30.0
_POLL_SECONDS: Final = 0.1
# The same while no controller answers, which may last all night.
_AWAY_SECONDS: Final = 1.0
# Time in which a signal that goes to all processes reaches each of them.
_SHUTDOWN_SECONDS: Final = 0.5
_WAITING: Final = "but processes that it has left in the background remain; waiting for their end"


class Attempt:
    """State of a process that is an attempt, and that reports when it begins.

    Attributes:
        output: Output file of the program in the background; None in the foreground.
        is_patient: True if it waits for a controller that is away, as nobody waits for it.
    """

    output: Path | None = None
    is_patient = False

    def __init__(self, telling: int) -> None:
        """Create the state.

        Args:
            telling: Descriptor of the pipe to the process that started this one.
        """
        self._telling: int | None = telling

    def submitted(self, job: str) -> None:
        """Report the job's id; only the first call has an effect."""
        self._tell(job)

    def admitted(self) -> None:
        """Handle that the job has its first cores, so that the program starts next."""

    def alone(self) -> None:
        """Report that the attempt is not a job of its own."""
        self._tell("")

    def _tell(self, job: str) -> None:
        if self._telling is not None:
            with suppress(BrokenPipeError):  # The other process has ended.
                os.write(self._telling, f"{job}\n".encode())
            os.close(self._telling)
            self._telling = None


@dataclass(frozen=True)
class LastAttempt:
    """Result of the last attempt.

    Attributes:
        code: Exit code, as in a shell.
        job: Id of the job; None if the attempt was not a job.
        signal: Number of the signal that ended the program; None if it exited.
        is_interrupted: True if a signal to the calling process requested the end.
        is_next_interrupted: True if the same happened to an attempt after it that was no job yet.
    """

    code: int
    job: str | None
    signal: int | None = None
    is_interrupted: bool = False
    is_next_interrupted: bool = False

    @property
    def what(self) -> str:
        """What has ended, in words."""
        return "the program" if self.job is None else f"job {self.job}"


class Keeper:
    """What the process that starts the attempts does beside; this one is in the foreground.

    Attributes:
        patience: Seconds for which a controller that is away may come back, which alone knows
            whether a job was cancelled.
        first: Number of the first attempt; others have been made before.
    """

    patience: float = _PATIENCE_SECONDS
    first: int = 1

    def say(self, sentence: str) -> None:
        """Show one line to the user."""
        say(sentence)

    def forked(self) -> None:
        """Handle the start of an attempt."""

    def ended(self, last: LastAttempt) -> None:
        """Handle the end of the program of an attempt, which may not be the last one."""


def continue_in_attempts(socket: str, retries: int) -> Attempt:
    """Fork a process for each attempt; the calling process ends as the last of them.

    Args:
        socket: Path of the controller's socket.
        retries: Maximum number of attempts after the first one.

    Raises:
        OperationError: A process cannot be started.
        SystemExit: In the calling process.
    """
    found = attempts(retries, socket, Keeper())
    if isinstance(found, LastAttempt):
        _end_as(found)
    _, telling = found
    return Attempt(telling)


def _end_as(last: LastAttempt) -> NoReturn:
    """End as an attempt did: a shell ends a loop only if Ctrl-C has ended a program of it."""
    if last.signal not in (None, signal.SIGKILL):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # The program's is enough.
        number = signal.Signals(last.signal)
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
        os.kill(os.getpid(), number)
    sys.exit(last.code)


def attempts(retries: int, socket: str, keeper: Keeper) -> tuple[int, int] | LastAttempt:
    """Fork a new process, and another one each time that the process fails.

    There are no further attempts after one that was refused (which is not counted), was
    cancelled, has reached its time limit, or should end because of a signal to the calling
    process.

    Args:
        retries: Maximum number of attempts after the first one.
        socket: Path of the controller's socket.
        keeper: What the calling process does beside.

    Returns:
        In a new process: the number of the attempt, from 1, and the descriptor of a pipe for
        an Attempt. In the calling process: the last attempt, once it has ended.

    Raises:
        OperationError: A process cannot be started.
    """
    passed_on = {number for number in _PASSED_ON if signal.getsignal(number) != signal.SIG_IGN}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, passed_on | {signal.SIGCHLD})
    number = keeper.first
    last: LastAttempt | None = None
    while True:
        hearing, telling = os.pipe()
        program = fork()
        if not program:
            os.close(hearing)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
            return number, telling
        os.close(telling)
        keeper.forked()
        with open(hearing) as pipe:
            said = pipe.read()
        job = said.strip() or None
        status, is_unwanted = _wait(program, passed_on, job, socket)
        if not said and last is not None:
            return replace(last, is_next_interrupted=is_unwanted)
        code = status if status >= 0 else 128 - status
        last = LastAttempt(code, job, -status if status < 0 else None, is_unwanted)
        keeper.ended(last)
        # An attempt without a report was refused, or is not an executable program.
        if code == 0 or number > retries or not said or is_unwanted:
            return last
        if not _is_to_repeat(last, socket, keeper):
            return last
        number += 1
        keeper.say(
            f"{last.what} ended with exit code {code}; attempt {number} of {retries + 1} begins"
        )


def _is_to_repeat(last: LastAttempt, socket: str, keeper: Keeper) -> bool:
    """Return whether nobody wanted the end of a failed attempt; once its job has ended."""
    if last.job is not None:
        client = _client(socket)
        how = f"{last.what} ended with exit code {last.code}, {_WAITING}"
        await_end(client, last.job, partial(keeper.say, how), keeper.patience)
        is_cancelled = _is_cancelled(client, last.job, keeper.patience)
        if is_cancelled is None and not signal.sigpending() & ENDING:
            keeper.say(
                f"cannot find out whether {last.what} was cancelled, so it is not started again"
            )
        if is_cancelled is not False:
            return False
    return not signal.sigpending() & ENDING


def is_to_end(last: LastAttempt) -> bool:
    """Return whether signals to this process have requested its end, as when the host shuts down.

    They may come shortly after the program was ended by the same signal.
    """
    if last.is_interrupted or last.is_next_interrupted or signal.sigpending() & ENDING:
        return True
    if last.signal not in (*ENDING, signal.SIGKILL):
        return False
    return signal.sigtimedwait(ENDING, _SHUTDOWN_SECONDS) is not None


def fork() -> int:
    """Fork this process.

    Raises:
        OperationError: A process cannot be started.
    """
    try:
        return os.fork()
    except OSError as error:
        raise OperationError(f"cannot start a process: {error.strerror}") from None


def _wait(
    program: int, passed_on: set[signal.Signals], job: str | None, socket: str
) -> tuple[int, bool]:
    """Pass signals on to a child until it ends.

    Args:
        program: Pid of the child.
        passed_on: Signals that are passed on.
        job: Id of the child's job; None if it is none.
        socket: Path of the controller's socket.

    Returns:
        Exit code, or the negative number of the signal that ended the child; and whether one of
        the signals passed on requested the end.
    """
    asked: int | None = None
    while True:
        came = signal.sigwaitinfo(passed_on | {signal.SIGCHLD})
        number = came.si_signo
        if number != signal.SIGCHLD:
            # The child has received signals of the kernel, such as for Ctrl-C, itself.
            if came.si_code <= 0:
                os.kill(program, number)
            if number in ENDING:
                asked = asked or number
                if job is not None and _is_stopped(program):
                    _cancel(_client(socket), job)
            continue
        ended, status = os.waitpid(program, os.WNOHANG)
        if ended:
            code = os.waitstatus_to_exitcode(status)
            # One that was stopped is ended by the controller's SIGTERM; one that waited exits.
            if asked is not None and code in (-signal.SIGTERM, 128 + asked):
                code = -asked
            return code, asked is not None


def _cancel(client: Client, job: str) -> None:
    from tf_malleable.api.schema.messages import JobStatus

    with suppress(OperationError):
        client.ask("POST", f"/v1/jobs/{job}/cancel", JobStatus)


def _is_stopped(program: int) -> bool:
    """Return whether a child is stopped, so that no signal reaches it until it may go on."""
    stat = procfs.read_stat(program)
    return stat is not None and stat.state == "T"


def _client(socket: str) -> Client:
    from tf_malleable.api.transport.client import Client  # Slow to load.

    return Client(Path(socket))


def await_end(
    client: Client,
    job: str,
    on_waiting: Callable[[], None] = lambda: None,
    patience: float = _PATIENCE_SECONDS,
) -> None:
    """Return once a job whose main process has ended has no other processes either.

    Args:
        client: Client of the controller, which may restart meanwhile.
        job: Id of the job.
        on_waiting: Called once if there are other processes.
        patience: Seconds for which the controller may be away.
    """
    has_told = False
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and not signal.sigpending() & ENDING:
        pause = _POLL_SECONDS
        try:
            found = next((each for each in client.jobs() if each.id == job), None)
        except OperationError:
            pause = _AWAY_SECONDS
        else:
            if found is None:
                return
            if found.remaining:
                deadline = time.monotonic() + patience
                if not has_told:
                    on_waiting()
                has_told = True
        time.sleep(pause)


def _is_cancelled(client: Client, job: str, patience: float) -> bool | None:
    """Return whether a job that has just ended is recorded as cancelled; None if unknown."""
    from tf_malleable.cli.ended_jobs import find_ended

    deadline = time.monotonic() + patience
    while time.monotonic() < deadline and not signal.sigpending() & ENDING:
        pause = _POLL_SECONDS
        try:
            if all(each.id != job for each in client.jobs()):
                record = find_ended(client, job)
                return None if record is None else record.outcome == "cancelled"
        except OperationError:
            pause = _AWAY_SECONDS
        time.sleep(pause)
    return None
