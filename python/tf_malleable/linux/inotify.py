# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Waiting for writes to files, with inotify(7).

inotify also reports writes to cgroup files, including those through another mount, for
example by the host into a container.
"""

from __future__ import annotations

import os
import select
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

# <sys/inotify.h>
_IN_MODIFY: Final = 0x2
# In bytes; the next call reads the rest.
_LARGEST_READ: Final = 1 << 12


def _libc() -> Any:  # noqa: ANN401 - ctypes has no type for it
    """Return the C library; None if it has no inotify or cannot be called."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        _ = libc.inotify_init1, libc.inotify_add_watch, libc.inotify_rm_watch
    except (ImportError, OSError, AttributeError):
        return None
    return libc


class Writes:
    """Watcher of writes to files. One thread may wait; any other thread may wake it up."""

    def __init__(self) -> None:
        self._libc = _libc()
        self._descriptor: int | None = None
        self._watches: dict[Path, int] = {}
        self._identity: frozenset[str] = frozenset()

    def watch(self, paths: Iterable[Path]) -> bool:
        """Watch these files from now on; return False if they cannot be watched."""
        wanted = {path for path in paths if path.exists()}
        if wanted == self._watches.keys() and self._information() == self._identity:
            return True
        self.close()
        if self._libc is None or not wanted:
            return False
        descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if descriptor < 0:
            return False
        for path in wanted:
            number = self._libc.inotify_add_watch(descriptor, os.fsencode(path), _IN_MODIFY)
            if number < 0:
                os.close(descriptor)
                return False
            self._watches[path] = number
        self._descriptor = descriptor
        self._identity = self._information()
        return True

    def wait(self, seconds: float) -> bool:
        """Wait at most this long; return True after a write or a call of wake()."""
        descriptor = self._descriptor
        if descriptor is None:
            time.sleep(seconds)
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        # The program may have closed our descriptor (daemons close all of them) and reused
        # its number for a file of its own.
        if self._is_ours():
            with suppress(BlockingIOError):
                os.read(descriptor, _LARGEST_READ)
            return True
        self._forget()
        time.sleep(seconds)
        return False

    def wake(self) -> None:
        """Make wait() in another thread return now."""
        # Removing a watch is an event, too.
        descriptor = self._descriptor
        if descriptor is not None and self._libc is not None:
            for number in tuple(self._watches.values()):
                self._libc.inotify_rm_watch(descriptor, number)

    def close(self) -> None:
        """Stop watching."""
        if self._is_ours() and self._descriptor is not None:
            os.close(self._descriptor)
        self._forget()

    def _forget(self) -> None:
        self._descriptor = None
        self._watches = {}

    def _is_ours(self) -> bool:
        return self._descriptor is not None and self._information() <= self._identity

    def _information(self) -> frozenset[str]:
        """Return the kernel's description of the descriptor, with a line for each watch.

        The watches of deleted files are removed.
        """
        try:
            lines = Path(f"/proc/self/fdinfo/{self._descriptor}").read_text().splitlines()
            return frozenset([*lines, os.readlink(f"/proc/self/fd/{self._descriptor}")])
        except OSError:
            return frozenset(["closed"])
