# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""State file: tells readers what the tier copies, that it is alive, and what they may do."""

from __future__ import annotations

import errno
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_malleable.linux.processes.procfs import boot_id
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.tier.protocol import (
    MOST_TEXT,
    STATE,
    STATE_BYTES,
    STATE_MAGIC,
    UNASKED,
    UNASKED_OFFSET,
    VALID_OFFSET,
    VERSION,
    StateFlag,
    folder_hash,
    state_text,
)

VALID_SECONDS: Final = 3.0


class LifeSign:
    """The state file. Readers have it mapped: only for another store or source is it replaced."""

    def __init__(
        self,
        folder: TrustedFolder,
        name: str,
        mode: int,
        store: Path,
        sources: tuple[Path, ...],
    ) -> None:
        """Create the file, or open the existing one; it says that the tier is not alive yet.

        Args:
            folder: Folder of the file.
            name: Name of the file.
            mode: Mode of the file.
            store: Folder of the copies, which readers recognise by its inode.
            sources: Folders whose files are copied, without symbolic links.

        Raises:
            OSError: The file cannot be created, or is another user's.
        """
        boot = int(boot_id().replace("-", "")[:16], 16)
        about = os.stat(store)
        self._head = (STATE_MAGIC, VERSION, boot)
        self._store = (about.st_dev, about.st_ino)
        text = state_text(Path(os.path.realpath(store)), sources)
        if len(text) > MOST_TEXT:
            raise OSError(errno.ENAMETOOLONG, "the paths of store and sources are too long")
        content = self._packed(StateFlag(0), 0).ljust(STATE_BYTES, b"\0") + text
        self._descriptor = -1
        with suppress(FileNotFoundError):
            self._descriptor = folder.open(name, os.O_RDWR)
            self.end()
        if self._descriptor < 0 or not self._says(content):
            replaced, self._descriptor = self._descriptor, _replace(folder, name, content)
            if replaced >= 0:
                os.close(replaced)
        os.fchmod(self._descriptor, mode)
        os.pwrite(self._descriptor, bytes(8 * UNASKED), UNASKED_OFFSET)

    def publish(self, flags: StateFlag, largest: int) -> None:
        """Declare the tier alive for the next three seconds.

        Args:
            flags: Operations that readers may use.
            largest: Size in bytes of the largest file of which a copy is begun.
        """
        data = self._packed(flags, largest)
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

    def _packed(self, flags: StateFlag, largest: int) -> bytes:
        return STATE.pack(*self._head, 0, flags, max(0, largest), *self._store)

    def _says(self, content: bytes) -> bool:
        """Return whether the file is of this boot, store and sources."""
        found = os.pread(self._descriptor, len(content) + 1, 0)
        if len(found) != len(content) or found[STATE_BYTES:] != content[STATE_BYTES:]:
            return False
        magic, version, boot, _, _, _, *store = STATE.unpack_from(found)
        return ((magic, version, boot), tuple(store)) == (self._head, self._store)


def _replace(folder: TrustedFolder, name: str, content: bytes) -> int:
    """Put another file in place of one that readers may have mapped; return its descriptor."""
    new = f"{name}.new"
    with suppress(FileNotFoundError):
        os.unlink(new, dir_fd=folder.descriptor)
    descriptor = folder.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        os.pwrite(descriptor, content, 0)
        os.rename(new, name, src_dir_fd=folder.descriptor, dst_dir_fd=folder.descriptor)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
