# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Handoff: copies of small files that readers pass to the daemon in shared memory.

The reader of a small file continues at once. A thread of the daemon with the lowest priority
makes the copy, at times when the readers wait for the source.
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
"""Free bytes above which a handoff evicts nothing."""
_REST_SECONDS: Final = (0.02, 0.2)
# A quarter of what a queue holds.
_TOGETHER_BYTES: Final = 1 << 20
# A reader's message that it has handed over a file may be lost.
_LOOK_SECONDS: Final = 1.0
_NICE: Final = 19

_log = logging.getLogger(__name__)


class Followed:
    """A reader's queue from which the daemon makes copies.

    Attributes:
        queue: Queue of one reader.
        heard: Callback that receives each file once its copy exists or has failed.
        is_ended: Whether the reader has ended.
        handed: Event that is set when the reader reports a new file.
        one_at_a_time: Lock of the queue.
        rest: Pause between two batches, in seconds.
    """

    def __init__(self, queue: ReaderQueue, heard: Callable[[HandedFile], None]) -> None:
        """Follow a queue; needs a running event loop."""
        self.queue, self.heard = queue, heard
        self.is_ended = False
        self.handed = asyncio.Event()
        self.one_at_a_time = asyncio.Lock()
        self.rest = _REST_SECONDS[0]

    def end(self) -> None:
        """Note that the reader has ended: the remaining files are taken, and no more."""
        self.is_ended = True
        self.handed.set()


class Handoff:
    """Makes copies of the files that readers hand over.

    Attributes:
        is_supported: Whether the store's file system supports the handoff.
    """

    def __init__(self, service: TierService, sources: Iterable[Path]) -> None:
        """Create a handoff without queues.

        Args:
            service: Service of the tier.
            sources: Folders whose files are copied.
        """
        self.is_supported = True
        self._service, self._sources = service, tuple(map(str, sources))
        self._followed: set[Followed] = set()
        # A separate thread: on Linux, each thread has its own niceness, which it cannot lower
        # again without privilege.
        self._thread = ThreadPoolExecutor(1, "tier-taking", _step_back)
        self._area = private_area(os.geteuid())

    def follow(self, descriptor: int, heard: Callable[[HandedFile], None]) -> Followed:
        """Make copies of all files that a reader puts into a queue, until end() is called.

        Args:
            descriptor: Descriptor of the queue; the caller keeps and closes it.
            heard: Callback that receives each file once its copy exists or has failed.

        Raises:
            ProtocolError: The descriptor is not that of a queue.
            OSError: The shim library is not installed.
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
        """Call a function once all files handed over until now have been taken."""

        async def take_all() -> None:
            for followed in tuple(self._followed):
                with suppress(ProtocolError):  # _follow() gets the same error, and logs it.
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
                    # Each batch has a fixed cost, that of some files: wait for larger ones.
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
            # In the taking thread: if this task was cancelled, it may still be using the queue.
            self._thread.submit(followed.queue.close)

    async def _rest(self, followed: Followed) -> bool:
        """Request a message for the next file; return whether the queue is empty now."""
        async with followed.one_at_a_time:
            return followed.queue.rest()

    async def _take(self, followed: Followed) -> int:
        """Make copies of all files in a queue; return their total size in bytes."""
        took, loop = 0, asyncio.get_running_loop()
        async with followed.one_at_a_time:
            while taken := await loop.run_in_executor(self._thread, followed.queue.take):
                took += sum(each.identity.size for each in taken)
                self._adopt(taken, followed.heard)
        return took

    def _adopt(self, taken: Iterable[HandedFile], heard: Callable[[HandedFile], None]) -> None:
        """Add new copies to the store, and tell their homes."""
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
        elif taken.error != errno.ECANCELED:  # ECANCELED: the reader has withdrawn the file.
            self._service.counters.unpublished += 1
            self._service.disk_failed(OSError(taken.error, os.strerror(taken.error)))

    async def _make_room(self, adopted: Iterable[Kept]) -> None:
        for kept in adopted:
            if await self._service.reserve(kept.key, 0):
                return
            self._service.forget(kept.key)


def _step_back() -> None:
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)
