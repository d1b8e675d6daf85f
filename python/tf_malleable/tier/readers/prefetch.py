# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Prefetching: copies of files that a program is likely to open next, while the source is idle.

A block is read when no reader has read for a moment, so that readers have all the bandwidth.
If a file takes much longer per byte than others did, the source is busy with other nodes, and
prefetching pauses. No copy is evicted for a prefetched file.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final

from tf_malleable.tier.readers.access_order import AccessOrder, OpeningProgram
from tf_malleable.tier.readers.fill import Turn
from tf_malleable.tier.service import TierService

STILL_SECONDS: Final = 0.005
"""Time without reads after which the source counts as idle."""
_LOOK_SECONDS: Final = 0.0025
# Longest wait per block of a file that was begun: a reader may be waiting for it by now.
_LONGEST_SECONDS: Final = 2.0
_BUSY: Final = 2.0
_LONGEST_PAUSE_SECONDS: Final = 5.0


class Prefetcher:
    """Copies files that are likely to be opened next."""

    def __init__(self, service: TierService, copy: Callable[[str, Turn], Awaitable[int]]) -> None:
        """Create a prefetcher.

        Args:
            service: Service of the tier.
            copy: Function that copies a file for which there is room, each block at its turn, and
                returns the number of bytes.
        """
        self._service, self._copy = service, copy
        self._orders = AccessOrder()
        self._wanted: dict[str, None] = {}
        self._is_wanted = asyncio.Event()
        self._opens = 0
        self._best = float("inf")
        self._waited = 0.0

    def opened(self, program: OpeningProgram, path: str, is_copy: bool = False) -> None:
        """Note that a program has opened a file.

        Args:
            program: Program that opened the file.
            path: Path of the file.
            is_copy: Whether the program opened a complete copy.
        """
        self._opens += not is_copy
        coming = self._orders.opened(program, path, is_copy)
        if coming:
            # The next file comes last: it is likely to be opened before its copy is ready.
            self._wanted = dict.fromkeys((*coming[1:], coming[0]))
            self._is_wanted.set()

    def ended(self, program: OpeningProgram) -> None:
        """Note that a program opens no more files."""
        self._orders.ended(program)

    async def run(self) -> None:
        """Copy the wanted files, one at a time, until cancelled."""
        while True:
            await self._is_wanted.wait()
            while self._wanted:
                path = next(iter(self._wanted))
                del self._wanted[path]
                began, self._waited = time.monotonic(), 0.0
                size = await self._copy(path, self._turn)
                self._service.counters.prefetched_bytes += size
                took = time.monotonic() - began - self._waited
                await asyncio.sleep(self._pause(size, took))
            self._is_wanted.clear()

    async def _turn(self, end: int) -> bool:
        """Wait until no reader reads, but no longer than _LONGEST_SECONDS."""
        began = still = now = time.monotonic()
        before = self._activity()
        while now < min(began + _LONGEST_SECONDS, still + STILL_SECONDS):
            await asyncio.sleep(_LOOK_SECONDS)
            now = time.monotonic()
            if (activity := self._activity()) != before:
                before, still = activity, now
        self._waited += now - began
        return True

    def _activity(self) -> tuple[object, ...]:
        """Return a value that changes when readers read."""
        grown = [
            (key, copy.share_there())
            for key, copy in self._service.growing.items()
            if copy.by_readers
        ]
        return self._opens, *grown

    def _pause(self, size: int, seconds: float) -> float:
        """Return the pause after a file, in seconds.

        Args:
            size: Size of the file in bytes; 0 if it was not copied.
            seconds: Time that the copy took.
        """
        if not size:
            return 0.0
        each = seconds / size
        # The speed of the source may change: an old best value counts less and less.
        self._best = min(each, self._best * 1.05)
        return min(seconds, _LONGEST_PAUSE_SECONDS) if each > _BUSY * self._best else 0.0
