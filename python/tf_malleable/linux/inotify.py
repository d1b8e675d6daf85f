# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Notices at once when somebody writes to a file, with Linux's inotify.

The kernel tells of writes to cgroup files as of any others, also those that come
through another mount, from the host into a container.
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
# Bytes; what does not fit is left for the next time.
_LARGEST_READ: Final = 1 << 12


def _libc() -> Any:  # noqa: ANN401 - ctypes has no type for it
    """Return the C library, None if it has no inotify or cannot be called."""
    try:
        import ctypes

        libc = ctypes.CDLL(None)
        _ = libc.inotify_init1, libc.inotify_add_watch, libc.inotify_rm_watch
    except (ImportError, OSError, AttributeError):
        return None
    return libc


class Writes:
    """Waits for writes to some files. One thread may wait, any other wake it up."""

    def __init__(self) -> None:
        self._libc = _libc()
        self._descriptor: int | None = None
        self._watches: dict[Path, int] = {}
        self._identity: frozenset[str] = frozenset()

    def watch(self, paths: Iterable[Path]) -> bool:
        """Wait for writes to these files from now on; return whether that can be."""
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
        """Wait so long at most; return whether something was written, or it was woken up."""
        descriptor = self._descriptor
        if descriptor is None:
            time.sleep(seconds)
            return False
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        if not poll.poll(seconds * 1000):
            return False
        # The program may have closed our descriptor, as programs that become daemons
        # close all, and have the number for a file of its own.
        if self._is_ours():
            with suppress(BlockingIOError):
                os.read(descriptor, _LARGEST_READ)
            return True
        self._forget()
        time.sleep(seconds)
        return False

    def wake(self) -> None:
        """Let the thread that waits return now."""
        # To be no longer watched is an event, too.
        descriptor = self._descriptor
        if descriptor is not None and self._libc is not None:
            for number in tuple(self._watches.values()):
                self._libc.inotify_rm_watch(descriptor, number)

    def close(self) -> None:
        """Watch nothing any more."""
        if self._is_ours() and self._descriptor is not None:
            os.close(self._descriptor)
        self._forget()

    def _forget(self) -> None:
        self._descriptor = None
        self._watches = {}

    def _is_ours(self) -> bool:
        return self._descriptor is not None and self._information() <= self._identity

    def _information(self) -> frozenset[str]:
        """Return what the kernel says of the descriptor: a line for each watch, and more.

        Watches of files that are gone are gone as well.
        """
        try:
            lines = Path(f"/proc/self/fdinfo/{self._descriptor}").read_text().splitlines()
            return frozenset([*lines, os.readlink(f"/proc/self/fd/{self._descriptor}")])
        except OSError:
            return frozenset(["closed"])
