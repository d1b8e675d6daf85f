# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""State file: tells readers that the tier is alive, and which operations they may use."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

from tf_malleable.tier.protocol import (
    STATE,
    STATE_BYTES,
    STATE_MAGIC,
    UNASKED,
    UNASKED_OFFSET,
    VALID_OFFSET,
    VERSION,
    StateFlag,
    folder_hash,
)

VALID_SECONDS: Final = 3.0
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def state_path(socket: Path) -> Path:
    """Return the path of the state file of the tier at a socket."""
    return socket.with_name(socket.name + ".state")


class LifeSign:
    """The state file. It is created once and never replaced, as readers have it mapped."""

    def __init__(self, path: Path, mode: int) -> None:
        """Create the file, or open the existing one; it says that there is no tier yet.

        Raises:
            OSError: The file cannot be created.
        """
        self._descriptor = os.open(
            path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        os.fchmod(self._descriptor, mode)
        if os.fstat(self._descriptor).st_size < STATE_BYTES:
            os.ftruncate(self._descriptor, STATE_BYTES)
        boot = int(_BOOT_ID.read_text().replace("-", "")[:16], 16)
        self._head = (STATE_MAGIC, VERSION, boot)
        self.end()
        os.pwrite(self._descriptor, bytes(8 * UNASKED), UNASKED_OFFSET)

    def publish(self, flags: StateFlag, largest: int) -> None:
        """Declare the tier alive for the next three seconds.

        Args:
            flags: Operations that readers may use.
            largest: Size in bytes of the largest file of which a copy is begun.
        """
        data = STATE.pack(*self._head, 0, flags, max(0, largest))
        after = VALID_OFFSET + 8
        os.pwrite(self._descriptor, data[after:], after)
        os.pwrite(self._descriptor, data[:VALID_OFFSET], 0)
        until = time.clock_gettime_ns(time.CLOCK_BOOTTIME) + int(VALID_SECONDS * 1e9)
        os.pwrite(self._descriptor, until.to_bytes(8, "little"), VALID_OFFSET)

    def set_unasked(self, folder: str, is_unasked: bool) -> None:
        """Declare whether readers skip the lookup of files in a folder."""
        code = folder_hash(folder)
        where, there = UNASKED_OFFSET + code % UNASKED * 8, code.to_bytes(8, "little")
        if is_unasked:
            os.pwrite(self._descriptor, there, where)
        elif os.pread(self._descriptor, 8, where) == there:
            os.pwrite(self._descriptor, bytes(8), where)

    def end(self) -> None:
        """Declare that there is no tier."""
        os.pwrite(self._descriptor, bytes(8), VALID_OFFSET)

    def close(self) -> None:
        """Declare that there is no tier, and close the file."""
        self.end()
        os.close(self._descriptor)
