# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Takes small files over that readers hand over in memory, and makes copies of them.

A reader of small files goes on at once: what a copy takes is done here, by a thread that comes
after all others, and in the moments when the readers wait for their source.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.protocol import ProtocolError
from tf_malleable.tier.readers.reader_queue import HandedFile, ReaderQueue
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store.copy_store import Kept
from tf_malleable.tier.store.tenancy import private_area

ROOM: Final = 1 << 30
"""With so many bytes free, nothing must go for what readers hand over."""
_REST_SECONDS: Final = (0.02, 0.2)
# A quarter of what a queue holds.
_TOGETHER_BYTES: Final = 1 << 20
# A reader's word that it has handed something over may be lost.
_LOOK_SECONDS: Final = 1.0
_NICE: Final = 19

_log = logging.getLogger(__name__)


class Followed:
    """A queue from which copies are made.

    Attributes:
        queue: Of one reader.
        heard: Is called with each file, once there is a copy, or will be none.
        is_ended: Nothing more comes.
        handed: Set when the reader says that there is something.
        one_at_a_time: Guards the queue.
        rest: For how long more is let come together, in seconds.
    """

    def __init__(self, queue: ReaderQueue, heard: Callable[[HandedFile], None]) -> None:
        """Take nothing yet; needs a running loop."""
        self.queue, self.heard = queue, heard
        self.is_ended = False
        self.handed = asyncio.Event()
        self.one_at_a_time = asyncio.Lock()
        self.rest = _REST_SECONDS[0]

    def end(self) -> None:
        """Take what is left: the reader has ended."""
        self.is_ended = True
        self.handed.set()


class Handoff:
    """Makes copies of what readers hand over.

    Attributes:
        is_supported: The store's file system has what that needs.
    """

    def __init__(self, service: TierService, sources: Iterable[Path]) -> None:
        """Follow no queue yet.

        Args:
            service: Has the store.
            sources: The folders whose files are copied.
        """
        self.is_supported = True
        self._service, self._sources = service, tuple(map(str, sources))
        self._followed: set[Followed] = set()
        # Of its own, as Linux has niceness for each thread, and without privilege it only grows.
        self._thread = ThreadPoolExecutor(1, "tier-taking", _step_back)
        self._area = private_area(os.geteuid())

    def follow(self, descriptor: int, heard: Callable[[HandedFile], None]) -> Followed:
        """Make copies of all that a reader puts into a queue, until end() is called.

        Args:
            descriptor: Of the queue; stays the caller's.
            heard: Is called with each file, once there is a copy, or will be none.

        Raises:
            ProtocolError: It is no queue.
            OSError: The library is not installed.
        """
        store = self._service.store
        queue = ReaderQueue(
            descriptor, store.folder / self._area, store.growing(self._area), self._sources
        )
        followed = Followed(queue, heard)
        self._followed.add(followed)
        self._service.in_background(self._follow(followed))
        return followed

    def then(self, act: Callable[[], None]) -> None:
        """Do something once there are copies of all that was handed over until now."""

        async def take_all() -> None:
            for followed in tuple(self._followed):
                with suppress(ProtocolError):  # Whoever follows it finds out, too.
                    await self._take(followed)
            act()

        self._service.in_background(take_all())

    async def _follow(self, followed: Followed) -> None:
        try:
            while True:
                is_last = followed.is_ended
                took = await self._take(followed)
                if is_last:
                    return
                if took or not await self._rest(followed):
                    # Each time costs as much as some files: let more come together.
                    least, most = _REST_SECONDS
                    change = 2.0 if took < _TOGETHER_BYTES / 2 else 0.5
                    followed.rest = min(max(followed.rest * change, least), most)
                    await asyncio.sleep(followed.rest)
                    continue
                followed.rest = _REST_SECONDS[0]
                with suppress(asyncio.TimeoutError):
                    await asyncio.wait_for(followed.handed.wait(), _LOOK_SECONDS)
                followed.handed.clear()
        except ProtocolError as error:
            _log.info("a reader: %s", error)
        finally:
            self._followed.discard(followed)
            # By the thread that takes: it may still be at it if this was cancelled.
            self._thread.submit(followed.queue.close)

    async def _rest(self, followed: Followed) -> bool:
        """Have the reader say when there is something; returns whether there is nothing now."""
        async with followed.one_at_a_time:
            return followed.queue.rest()

    async def _take(self, followed: Followed) -> int:
        """Make copies of what is there; returns how many bytes that was."""
        took, loop = 0, asyncio.get_running_loop()
        async with followed.one_at_a_time:
            while taken := await loop.run_in_executor(self._thread, followed.queue.take):
                took += sum(each.identity.size for each in taken)
                self._adopt(taken, followed.heard)
        return took

    def _adopt(self, taken: Iterable[HandedFile], heard: Callable[[HandedFile], None]) -> None:
        """Take copies into account, and tell their homes."""
        service, now = self._service, time.time()
        adopted = []
        for each in taken:
            if each.error:
                self._failed(each)
            else:
                adopted.append(Kept(key_of(self._area, each.path), each.identity, now))
                service.store.add(adopted[-1])
            heard(each)
        if service.directory is not None:
            service.directory.hold({kept.key: kept.version.encode() for kept in adopted})
        if service.store.free < 0:
            service.in_background(self._make_room(adopted))

    def _failed(self, taken: HandedFile) -> None:
        if taken.error == errno.EOPNOTSUPP:
            self.is_supported = False
        elif taken.error != errno.ECANCELED:  # Its reader has taken it back.
            self._service.counters.unpublished += 1
            self._service.disk_failed(OSError(taken.error, os.strerror(taken.error)))

    async def _make_room(self, adopted: Iterable[Kept]) -> None:
        for kept in adopted:
            if await self._service.reserve(kept.key, 0):
                return
            self._service.forget(kept.key)


def _step_back() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
