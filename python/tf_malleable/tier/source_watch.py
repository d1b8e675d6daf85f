# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Source watch: notices when files with copies change or are closed to users, by inotify(7).

A user can open a copy by its path in the store, without the shim. So it must go soon after the
file, or a folder on its path, is closed to that user. Each folder on the paths of files with copies
is watched. What another machine changes on a file server, inotify does not report: the next
revalidation finds it.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import logging
import math
import os
import struct
import time
from collections.abc import Callable
from pathlib import PurePath
from typing import Final

_EVENT: Final = struct.Struct("iIII")
# <sys/inotify.h>
_IN_ATTRIB: Final = 0x4
_IN_MOVED_FROM: Final = 0x40
_IN_DELETE: Final = 0x200
_IN_CLOSE_WRITE: Final = 0x8
_IN_Q_OVERFLOW: Final = 0x4000
_IN_IGNORED: Final = 0x8000
_IN_ONLYDIR: Final = 0x1000000
_IN_ISDIR: Final = 0x40000000
_MASK: Final = _IN_ATTRIB | _IN_MOVED_FROM | _IN_DELETE | _IN_CLOSE_WRITE | _IN_ONLYDIR
_READ_BYTES: Final = 1 << 16
# Changes are collected for this long: a program may change many files at once.
_TOGETHER_SECONDS: Final = 0.05
# For this long after a folder was closed, copies may be added that were permitted before.
_RECENT_SECONDS: Final = 30.0
# Of more folders it is not noted which of them were closed.
_MOST_RECENT: Final = 10_000

_log = logging.getLogger(__name__)


class SourceWatch:
    """Watches the folders on the paths of files. watch() is thread-safe."""

    def __init__(self, changed: Callable[[frozenset[str], frozenset[str]], None]) -> None:
        """Start to watch no folder yet; needs a running event loop.

        Args:
            changed: Callback that receives the paths of changed files and folders, and those of
                the folders among them whose permissions may have changed.

        Raises:
            OSError: The system provides no inotify.
        """
        self._changed = changed
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self._descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._folders: dict[int, str] = {}
        self._watched: set[str] = set()
        self._paths: set[str] = set()
        self._closed: set[str] = set()
        # By folder: when it may have been closed, in seconds of the monotonic clock.
        self._closed_at: dict[str, float] = {}
        self._is_full = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self._read)

    def watch(self, path: str) -> bool:
        """Watch all folders on the path of a file; return whether any was not watched before."""
        is_new = False
        for folder in map(str, PurePath(path).parents):
            # Its parents are watched, too.
            if folder in self._watched:
                break
            is_new = True
            number = self._libc.inotify_add_watch(self._descriptor, os.fsencode(folder), _MASK)
            if number >= 0:
                self._folders[number] = folder
                self._watched.add(folder)
            elif ctypes.get_errno() == errno.ENOSPC and not self._is_full:
                self._is_full = True
                _log.warning(
                    "a folder that is closed to others is noticed late: no more folders can be"
                    " watched (fs.inotify.max_user_watches)"
                )
        return is_new

    def was_closed(self, path: str) -> bool:
        """Return whether a folder on the path of a file may have been closed a moment ago.

        A copy that is added then was not there to be dropped when that was told.
        """
        after, closed_at = time.monotonic() - _RECENT_SECONDS, self._closed_at
        return any(closed_at.get(str(each), -math.inf) > after for each in PurePath(path).parents)

    def close(self) -> None:
        """Stop watching."""
        self._loop.remove_reader(self._descriptor)
        os.close(self._descriptor)

    def _read(self) -> None:
        try:
            data = os.read(self._descriptor, _READ_BYTES)
        except BlockingIOError:
            return
        if not self._paths:
            self._loop.call_later(_TOGETHER_SECONDS, self._tell)
        offset = 0
        while offset < len(data):
            number, mask, _, size = _EVENT.unpack_from(data, offset)
            begin = offset + _EVENT.size
            name = os.fsdecode(data[begin : begin + size].rstrip(b"\0"))
            offset = begin + size
            if mask & _IN_Q_OVERFLOW:  # Any of the folders may have been closed.
                self._paths.add("/")
                self._closed.add("/")
            folder = self._folders.get(number)
            if folder is not None:
                path = os.path.join(folder, name) if name else folder
                self._paths.add(path)
                if mask & _IN_ATTRIB and mask & _IN_ISDIR:
                    self._closed.add(path)
            if mask & _IN_IGNORED and folder is not None:  # The folder is gone.
                self._watched.discard(self._folders.pop(number))
        self._note_closed(time.monotonic())

    def _note_closed(self, now: float) -> None:
        lately = {each: at for each, at in self._closed_at.items() if at > now - _RECENT_SECONDS}
        lately.update(dict.fromkeys(self._closed, now))
        self._closed_at = lately if len(lately) <= _MOST_RECENT else {"/": now}

    def _tell(self) -> None:
        paths, closed = frozenset(self._paths), frozenset(self._closed)
        self._paths, self._closed = set(), set()
        self._changed(paths, closed)
