# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Output files of jobs, whose paths other users may have chosen: opening them, and their end."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO, Final

from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import OperationError

_PIECE: Final = 1 << 16


def open_output(path: Path, user: str) -> BinaryIO:
    """Open a job's file for reading.

    Args:
        path: Path of the file, as submitted.
        user: Name of the job's user.

    Raises:
        OperationError: The file cannot be read, or is not a regular file of the user.
    """
    try:
        # Opening a device may already have effects.
        named = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise OperationError(f"cannot read {path}: {error.strerror}") from None
    try:
        about = os.fstat(named)
        if not stat.S_ISREG(about.st_mode) or user_name(about.st_uid) != user:
            raise OperationError(f"{path} is not a regular file of user {user}")
        return open(f"/proc/self/fd/{named}", "rb")
    except OSError as error:
        raise OperationError(f"cannot read {path}: {error.strerror}") from None
    finally:
        os.close(named)


def start_of_last(file: BinaryIO, lines: int) -> int:
    """Return where the last so many lines of a file begin, in bytes."""
    end = file.seek(0, os.SEEK_END)
    if not lines:
        return end
    missing, place = lines, end
    while place > 0:
        size = min(_PIECE, place)
        place -= size
        file.seek(place)
        piece = file.read(size)
        # The end of the last line ends none before it.
        at = len(piece) - (place + size == end and piece.endswith(b"\n"))
        while (at := piece.rfind(b"\n", 0, at)) >= 0:
            missing -= 1
            if not missing:
                return place + at + 1
    return 0


def last_lines(path: Path, user: str, lines: int, most: int) -> str:
    """Return the last lines of a job's output.

    Args:
        path: Path of the file, as submitted.
        user: Name of the job's user.
        lines: Maximum number of lines.
        most: Maximum number of bytes; of longer lines, the end is returned.

    Raises:
        OperationError: The file cannot be read, or is not a regular file of the user.
    """
    with open_output(path, user) as file:
        try:
            size = file.seek(0, os.SEEK_END)
            begin = max(0, size - most)
            file.seek(begin)
            text = file.read(most)
        except OSError as error:
            raise OperationError(f"cannot read {path}: {error.strerror}") from None
    if begin and b"\n" in text[:-1]:
        text = text[text.index(b"\n") + 1 :]
    return b"".join(text.splitlines(keepends=True)[-lines:]).decode(errors="replace")
