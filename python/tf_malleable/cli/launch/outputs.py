# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Files in which tfm submit keeps the output and the exit code of a job.

Their path is the one that the job's user has given to the controller. So only regular files
of that user are read, and no devices or pipes.
"""

from __future__ import annotations

import fcntl
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import OperationError


def exit_file(output: Path) -> Path:
    """Return the file for the exit code of a job with this output."""
    return output.with_suffix(".exit")


def keep(output: Path) -> None:
    """Lock the exit code file: is_kept() is True until this process ends or executes a program.

    Raises:
        OperationError: The file for the exit code cannot be written.
    """
    path = exit_file(output)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        raise OperationError(f"cannot write {path}: {error.strerror}") from None


def is_kept(output: Path, user: str) -> bool:
    """Return whether a job with this output may be started again if it fails."""
    with suppress(OperationError), open_output(exit_file(output), user) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def open_output(path: Path, user: str) -> BinaryIO:
    """Open a job's file for reading.

    Args:
        path: Path of the file, as submitted.
        user: Name of the job's user.

    Raises:
        OperationError: The file cannot be read, or is not a regular file of the user.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
    except OSError as error:
        raise OperationError(f"cannot read {path}: {error.strerror}") from None
    about = os.fstat(descriptor)
    if not stat.S_ISREG(about.st_mode) or user_name(about.st_uid) != user:
        os.close(descriptor)
        raise OperationError(f"{path} is not a regular file of user {user}")
    return open(descriptor, "rb")


def read_exit_code(output: Path, user: str) -> int | None:
    """Return the recorded exit code of a job with this output; None if there is none."""
    with suppress(OperationError, ValueError), open_output(exit_file(output), user) as file:
        return int(file.read(8))
    return None
