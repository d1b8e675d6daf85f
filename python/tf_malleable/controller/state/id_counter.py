# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Counter of job ids in a small file beside the state file.

The state file reserves ids in advance, so that none is reused after a power failure, or after a
time in which nothing could be written. This file has the exact number after a kill of the
controller: it is overwritten in place, without waiting for the disk, for each id, which takes
microseconds and no space on a disk that is full. The kernel keeps what a process has written, so
the number is exact until the next boot; after that, it is not used.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_malleable.linux.processes.procfs import boot_id
from tf_malleable.linux.trusted_folder import TrustedFolder

_FORM: Final = re.compile(rb"(\S+) ([0-9]{1,19}) +([0-9]{1,19}) *\n")
_LONGEST: Final = 128


class IdCounter:
    """The counter beside a state file that this process has locked. For use by one thread.

    It is never in the way: without its file, the reserved ids count.
    """

    def __init__(self, state: Path) -> None:
        """Open the file, which is created if it is missing.

        Args:
            state: Path of the state file.
        """
        self._path = state.with_name(f"{state.name}-next")
        self._boot = boot_id()
        self._descriptor: int | None = None
        with suppress(OSError), TrustedFolder(self._path.parent) as folder:
            self._descriptor = folder.open(self._path.name, os.O_RDWR | os.O_CREAT)

    def next(self, reserved: int, ahead: int) -> int:
        """Return the next id after a kill of the controller, or else the first unreserved one.

        Args:
            reserved: First id that is not reserved in the state file.
            ahead: Number of ids that each write of the state file reserves.
        """
        if self._descriptor is None:
            return reserved
        try:
            found = _FORM.fullmatch(os.pread(self._descriptor, _LONGEST, 0))
        except OSError:
            found = None
        if found is None or found[1] != self._boot.encode():
            return reserved
        number, before = int(found[2]), int(found[3])
        # What is in the state file was written before this id, or after it by the same controller:
        # an older version, which does not know the counter, has not run since.
        is_same = reserved in (before, number + ahead)
        return number if is_same and number <= reserved else reserved

    def note(self, number: int, reserved: int) -> None:
        """Record the next id.

        Args:
            number: The next id.
            reserved: First id that is not reserved in the state file.
        """
        if self._descriptor is None:
            return
        line = f"{self._boot} {number:<19} {reserved:<19}\n".encode()
        try:
            is_written = os.pwrite(self._descriptor, line, 0) == len(line)
        except OSError:
            is_written = False
        if not is_written:
            self.close()

    def close(self) -> None:
        """Delete the file: it says nothing that the state file does not say, or is wrong."""
        if self._descriptor is not None:
            with suppress(OSError):
                self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None
