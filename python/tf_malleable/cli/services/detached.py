# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Detached controller: continues in a process of its own session, which outlives the terminal.

Until it listens, errors go to the terminal, afterwards to its log file. Of several that are started
at once for one socket, the first one listens, and the others wait for that and end.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from tf_malleable.api.transport.address import NoAnswerError, default_listening_socket
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.launch.attempts import fork
from tf_malleable.cli.messages import say
from tf_malleable.controller.state.location import default_state
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.model import OperationError

# A controller that is started by a service, but is not the service, must not speak for it.
_SERVICE_VARIABLES = ("NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC")


def log_file(state: Path | None) -> Path:
    """Return the log file of a detached controller.

    Args:
        state: State file of the controller; None for the default.
    """
    return (state or default_state()).parent / "controller.log"


def continue_detached(socket: Path | None) -> int:
    """Continue in a process in the background; the calling one exits once that listens.

    Args:
        socket: Path at which the controller will listen; None for the default.

    Returns:
        Descriptor to which the process in the background writes its pid once it listens.

    Raises:
        OperationError: A process or the lock file cannot be created.
        SystemExit: In the calling process: with 0 once a controller listens, and otherwise with
            the exit code of the process in the background.
    """
    path = (socket or default_listening_socket()).absolute()
    lock = _lock(path)
    if _answers(path):
        say(f"a controller already answers at {path}; tfm status shows it")
        sys.exit(0)
    reading, writing = os.pipe()
    child = fork()
    if child:
        os.close(writing)
        _await_listening(reading, child)
    os.close(lock)
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for variable in _SERVICE_VARIABLES:
        os.environ.pop(variable, None)
    _keep_only(writing)
    return writing


def _lock(socket: Path) -> int:
    """Wait until no other process starts a controller for this socket; return the lock."""
    name = f"{socket.name}.start"
    try:
        with TrustedFolder(socket.parent, 0o700, sticky=True) as folder:
            lock = folder.open(name, os.O_RDWR | os.O_CREAT)
        fcntl.flock(lock, fcntl.LOCK_EX)
    except OSError as error:
        raise OperationError(
            f"cannot lock {socket.parent / name}: {error.strerror}; choose another socket with"
            " --socket"
        ) from None
    return lock


def _answers(socket: Path) -> bool:
    try:
        Client(socket).info()
    except NoAnswerError as error:
        return not error.is_nobody
    except OperationError:
        pass  # It is busy, or of another version.
    return True


def _await_listening(reading: int, child: int) -> NoReturn:
    with open(reading) as pipe:
        pid = pipe.read().strip()
    if pid:
        say(f"a controller runs in the background now (pid {pid}); tfm status shows it")
        sys.exit(0)
    _, status = os.waitpid(child, 0)
    sys.exit(os.waitstatus_to_exitcode(status) or 1)


def _keep_only(descriptor: int) -> None:
    """Close all descriptors but stderr and one more: whoever waits for their end need not wait."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        if number > 2 and number != descriptor:
            with suppress(OSError):  # The one of this listing.
                os.close(number)
