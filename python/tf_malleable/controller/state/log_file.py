# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Log file of a controller in the background: its stderr, of limited size."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_malleable.linux.trusted_folder import TrustedFolder

_MOST_BYTES: Final = 1 << 20
_FLAGS: Final = os.O_WRONLY | os.O_APPEND | os.O_CREAT


class LogFileError(Exception):
    """Cannot write the log file; the message is one sentence, with the remedy."""


class LogFile:
    """A log file, which is renamed and begun anew when it is too large.

    Everything that the process writes to stderr goes there, also a traceback of Python's own. The
    file before it is kept beside it, with ``.1`` at the end of its name.
    """

    def __init__(self, path: Path, most: int = _MOST_BYTES) -> None:
        """Open the log file, which nobody else may read.

        Args:
            path: Path of the file; missing folders are created.
            most: Size in bytes from which on the file is begun anew.

        Raises:
            LogFileError: The file cannot be written.
        """
        self._most = most
        try:
            self._folder = TrustedFolder(path.parent, 0o700)
            self._name = path.name
            self._file = self._folder.open(self._name, _FLAGS)
        except OSError as error:
            raise LogFileError(f"cannot write the log file {path}: {error.strerror}") from None

    def take_over(self) -> None:
        """Make the file the stderr of this process."""
        os.dup2(self._file, 2)

    def trim(self) -> None:
        """Begin the file anew if it is too large; to be called now and then."""
        try:
            if os.fstat(self._file).st_size < self._most:
                return
            folder = self._folder.descriptor
            os.rename(self._name, f"{self._name}.1", src_dir_fd=folder, dst_dir_fd=folder)
            file = self._folder.open(self._name, _FLAGS)
        except OSError:
            # On a disk that is full or gone, a log that is lost is better than one that grows.
            with suppress(OSError):
                os.ftruncate(self._file, 0)
            return
        os.dup2(file, self._file)
        os.close(file)
        self.take_over()

    def close(self) -> None:
        """Close the file; stderr stays."""
        os.close(self._file)
        self._folder.close()
