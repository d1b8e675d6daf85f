# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Files in which the keeper of a job of tfm submit records its exit, and shows that it lives."""

from __future__ import annotations

import fcntl
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_malleable.controller.state.exit_file import RecordedExit, exit_file
from tf_malleable.controller.state.location import default_state
from tf_malleable.linux.output_file import open_output
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.model import OperationError

_RESUMING: Final = "resume.lock"
_POLL_SECONDS: Final = 0.1


def output_folder() -> Path:
    """Return the folder of the outputs, and of the jobs that have not ended."""
    return default_state().parent / "output"


def keep(output: Path) -> None:
    """Lock the exit file: is_kept() is True until this process ends or executes a program.

    Raises:
        OperationError: The exit file cannot be written.
    """
    fcntl.flock(_opened(output), fcntl.LOCK_EX)


def claim(output: Path) -> int | None:
    """Become the keeper of a job that has none.

    Returns:
        Descriptor of the locked file; None if the job has a keeper.

    Raises:
        OperationError: The exit file cannot be written.
    """
    descriptor = _opened(output)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _opened(output: Path) -> int:
    path = exit_file(output)
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT, 0o600)
    except OSError as error:
        raise OperationError(f"cannot write {path}: {error.strerror}") from None


def is_kept(output: Path, user: str) -> bool:
    """Return whether the keeper of a job with this output runs, which may start it again."""
    with suppress(OperationError), open_output(exit_file(output), user) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return True
    return False


def begin_resumption() -> int | None:
    """Have is_resuming() be True while any process has the returned descriptor.

    None if that is not possible: there is no such folder of this user's, or the disk is full.
    """
    with suppress(OSError), TrustedFolder(output_folder()) as inside:
        descriptor = inside.open(_RESUMING, os.O_RDWR | os.O_CREAT)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        return descriptor
    return None


def is_resuming() -> bool:
    """Return whether a process is about to submit stored jobs of this user again."""
    with suppress(OSError), TrustedFolder(output_folder()) as inside:
        descriptor = inside.open(_RESUMING, os.O_RDWR)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return True
        finally:
            os.close(descriptor)
    return False


def await_resumption() -> None:
    """Wait until the stored jobs of this user, if any, have been submitted again."""
    while is_resuming():
        time.sleep(_POLL_SECONDS)


def write_exit(output: Path, recorded: RecordedExit) -> None:
    """Write the exit file, in place, as it may be locked.

    Raises:
        OSError: The file cannot be written.
    """
    exit_file(output).write_text(recorded.encode())
