# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Warm-up: copies of files in advance, a few at a time, with an estimate of the time left."""

from __future__ import annotations

import asyncio
import os
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

_AT_A_TIME: Final = 4


class Warmup:
    """Queue of the files to copy in advance.

    Attributes:
        progress: Number of files, number of bytes, files done and bytes done.
    """

    def __init__(self, copy: Callable[[str], Awaitable[None]]) -> None:
        """Create an empty queue; needs a running event loop.

        Args:
            copy: Function that copies a file, and returns when that is done.
        """
        self._copy = copy
        self._waiting: deque[tuple[str, int]] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._began = 0.0
        self.progress = (0, 0, 0, 0)

    async def add(self, paths: Iterable[str]) -> tuple[int, int]:
        """Add files, and all files in folders; return their number and their bytes."""
        loop = asyncio.get_running_loop()
        found = await loop.run_in_executor(None, lambda: list(_files(paths)))
        if not self._tasks:
            self.progress, self._began = (0, 0, 0, 0), time.monotonic()
        size = sum(each for _, each in found)
        files, total, *done = self.progress
        self.progress = (files + len(found), total + size, done[0], done[1])
        self._waiting.extend(found)
        while len(self._tasks) < min(_AT_A_TIME, len(self._waiting)):
            task = loop.create_task(self._run())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return len(found), size

    def seconds_left(self, now: float) -> float | None:
        """Return the estimated time left in seconds; None if unknown.

        Args:
            now: Current time of the monotonic clock, in seconds.
        """
        _, size, _, size_done = self.progress
        if not self._tasks or not size_done:
            return None
        return (now - self._began) / size_done * (size - size_done)

    async def _run(self) -> None:
        while self._waiting:
            path, size = self._waiting.popleft()
            # A file that cannot be copied now is copied when a reader opens it.
            with suppress(OSError):
                await self._copy(path)
            files, total, files_done, size_done = self.progress
            self.progress = (files, total, files_done + 1, size_done + size)


def _files(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    for path in paths:
        if not os.path.isdir(path):
            with suppress(OSError):
                yield path, os.stat(path).st_size
            continue
        for where, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                each = os.path.join(where, name)
                with suppress(OSError):
                    about = os.lstat(each)
                    if os.path.isfile(each) and not os.path.islink(each):
                        yield each, about.st_size
