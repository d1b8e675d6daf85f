# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tier service: the life cycle of copies on one node, from admission to publication."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.peers.directory import Directory
from tf_malleable.tier.peers.location_records import Location
from tf_malleable.tier.peers.peer_fetch import Fetch, PeerFetch
from tf_malleable.tier.store.copy_store import CopyStore, Kept
from tf_malleable.tier.store.partial_copy import PartialCopy
from tf_malleable.tier.store.publication import NotPublishedError, is_of_disk, publish
from tf_malleable.tier.store.source_version import SourceVersion

_DISK_PAUSE_SECONDS: Final = 30.0
_FULL_SECONDS: Final = 5.0
_SLOW_SECONDS: Final = 2.0
_THREADS: Final = 16
# Copies for which there is no room: their total bytes at a time, and the time in which a reader
# must open one.
_MOST_PASSING: Final = 256 << 20
_PASSING_SECONDS: Final = 1.0

_Value = TypeVar("_Value")
_log = logging.getLogger(__name__)


class TierService:
    """Decides which copies are made, and publishes them.

    All methods run in one event loop; disk access runs in threads.

    Attributes:
        store: Complete copies.
        counters: Counters for metrics.
        growing: Partial copies by key.
        claimed: Keys of the files that this node reads from the source for all nodes.
        directory: Directory of the copies on other nodes; None without other nodes.
        following: Fetcher of copies from other nodes; None without other nodes.
    """

    def __init__(
        self,
        store: CopyStore,
        sources: Iterable[Path],
        counters: Counters,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a service.

        Args:
            store: Complete copies.
            sources: Folders whose files are copied.
            counters: Counters for metrics.
            clock: Function that returns seconds since 1970.
        """
        self.store, self.counters, self._clock = store, counters, clock
        self._sources = tuple(str(source) for source in sources)
        self.growing: dict[str, PartialCopy] = {}
        self.claimed: set[str] = set()
        self.directory: Directory | None = None
        self.following: PeerFetch | None = None
        self._disk_off_until = self._full_until = 0.0
        self._passing = 0
        self._disk_problem = ""
        self._threads = ThreadPoolExecutor(_THREADS, "tier")
        self._tasks: set[asyncio.Task[Any]] = set()
        self._finishing: set[str] = set()

    @property
    def problem(self) -> str:
        """Reason why no copies are made at present; empty if they are."""
        return self._disk_problem if self._clock() < self._disk_off_until else ""

    @property
    def largest(self) -> int:
        """Size in bytes of the largest file of which a copy is begun at present."""
        if self._clock() < self._full_until:
            return max(0, self.store.free)
        return self.store.capacity

    def is_source(self, path: str) -> bool:
        """Return whether a file is in a folder whose files are copied."""
        return any(path.startswith(source + "/") for source in self._sources)

    def device_of(self, path: str) -> int:
        """Return the device number of the source that contains a file; 0 if unknown."""
        for source in self._sources:
            if path.startswith(source + "/"):
                with suppress(OSError):
                    return os.stat(source).st_dev
        return 0

    def refusal(self, key: str, path: str, version: SourceVersion) -> str:
        """Return the reason against a copy of a file; empty if a copy may begin.

        Args:
            key: Key of the copy.
            path: Absolute path of the file in the source.
            version: Version of the file, from its descriptor.
        """
        if not self.is_source(path):
            return "it is not below the source"
        kept = self.store.get(key)
        if kept is not None and kept.version == version:
            return "there is a complete copy"
        if key in self.growing:
            return "its copy grows already"
        if not version.is_settled(self._clock()):
            return "it was modified less than 10 s ago"
        return self.problem

    async def begin(self, growing: PartialCopy) -> Location | None:
        """Add a partial copy, and ask for the location of its bytes.

        Returns:
            The location; None if the copy has been abandoned, or is complete by now.
        """
        key = growing.key
        if not await self.add(growing):
            # A lookup may have given the claim to the copy's reader.
            self._release(key)
            return None
        where = Location(True)
        if self.directory is not None:
            where = await self.directory.ask(key, growing.version.encode())
        if growing.is_closed:
            if where.is_yours and self.store.get(key) is None:
                self._release(key)
            return None
        if where.is_yours:
            self.claimed.add(key)
        return where

    async def add(self, growing: PartialCopy, may_pass: bool = False) -> bool:
        """Add a partial copy; return whether there is room for it.

        Args:
            growing: Partial copy.
            may_pass: True to accept the copy for a short time if there is no room: another node
                keeps the file.
        """
        key = growing.key
        if self.store.get(key) is not None:
            self.forget(key)
        self.growing[key] = growing
        has_room = await self.reserve(key, growing.size)
        if not has_room and may_pass and self._passing + growing.size <= _MOST_PASSING:
            growing.is_passing = True
            self._passing += growing.size
            return True
        if not has_room:
            if self.growing.get(key) is growing:
                del self.growing[key]
            growing.end("there is no room for a copy")
            self.counters.unpublished += 1
            return False
        return True

    async def follow(self, fetch: Fetch, where: Location) -> str:
        """Fetch a copy from other nodes, and publish it.

        Returns:
            Empty, or the reason for a failure; the copy is then not abandoned.
        """
        assert self.following is not None
        self.counters.peer_opens += 1
        problem = await self.following.follow(fetch, where.holders)
        copy = fetch.copy
        if copy is not None:
            if not problem and not copy.is_closed:
                await self.finish(copy)
            elif not copy.is_closed:
                copy.set_fetching(False)
        return problem

    async def finish(self, *copies: PartialCopy) -> None:
        """Publish complete copies; abandon those that cannot be published."""
        some = [copy for copy in copies if not copy.is_closed and copy.key not in self._finishing]
        if not some:
            return
        self._finishing.update(copy.key for copy in some)
        kept = await self.in_thread(lambda: [self._publish(copy) for copy in some])
        self._finishing.difference_update(copy.key for copy in some)
        for copy, found in zip(some, kept, strict=True):
            if isinstance(found, Exception):
                if isinstance(found, OSError):
                    self.disk_failed(found)
                self.give_up(copy, str(found))
            else:
                self._published(copy)

    def _publish(self, growing: PartialCopy) -> Kept | Exception:
        try:
            return publish(self.store, growing, self._clock())
        except (NotPublishedError, OSError) as error:
            return error

    def _published(self, growing: PartialCopy) -> None:
        key = growing.key
        self.growing.pop(key, None)
        self.claimed.discard(key)
        growing.end()
        if growing.is_passing:
            self._passing -= growing.size
            asyncio.get_running_loop().call_later(_PASSING_SECONDS, self.store.drop, key)
        elif self.directory is not None:
            self.directory.hold({key: growing.version.encode()})
        _log.info("copied %s, %d bytes", key, growing.size)

    def give_up(self, growing: PartialCopy, problem: str) -> None:
        """Abandon a partial copy; its readers read the source."""
        if growing.is_closed or growing.key in self._finishing:
            return
        self._unreserve(growing)
        if self.growing.get(growing.key) is growing:
            del self.growing[growing.key]
        self.counters.unpublished += 1
        growing.end(problem)
        self._release(growing.key)
        _log.info("no copy of %s: %s", growing.key, problem)

    def forget(self, key: str) -> None:
        """Drop a complete copy, and tell the home of the file."""
        if self.store.drop(key):
            self._release(key)

    def read(self, key: str) -> None:
        """Note that a complete copy was opened."""
        self.store.read(key, self._clock())

    def disk_failed(self, error: OSError) -> None:
        """Note that the store's disk is full or faulty; no copies are made for a while."""
        if not is_of_disk(error):
            return
        self._disk_problem = f"the store's disk takes no more: {error.strerror or error}"
        self._disk_off_until = self._clock() + _DISK_PAUSE_SECONDS
        _log.warning("%s", self._disk_problem)

    def wrote(self, seconds: float) -> None:
        """Note the time in seconds to write a block; a slow disk gets no copies for a while."""
        if seconds > _SLOW_SECONDS:
            self._disk_problem = f"the store's disk took {seconds:.1f} s for a block"
            self._disk_off_until = self._clock() + _DISK_PAUSE_SECONDS

    async def in_thread(self, function: Callable[[], _Value]) -> _Value:
        """Run a blocking function in a thread, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, function)

    def in_background(self, coroutine: Coroutine[Any, Any, object]) -> None:
        """Run a coroutine in the background; log its error, if any."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _log.error("a copy failed: %r", error)

    async def reserve(self, key: str, size: int) -> bool:
        """Reserve room for a copy of `size` bytes; return whether there is room."""
        is_there = await self._reserve(key, size)
        if not is_there:
            self._full_until = self._clock() + _FULL_SECONDS
        return is_there

    async def _reserve(self, key: str, size: int) -> bool:
        if self.store.take_free(size):
            return True
        loop = asyncio.get_running_loop()

        def sole(keys: Iterable[str]) -> frozenset[str]:
            directory = self.directory
            if directory is None:
                return frozenset()
            return asyncio.run_coroutine_threadsafe(directory.sole(keys), loop).result()

        def dropped(victim: str) -> None:
            self.counters.evictions += 1
            loop.call_soon_threadsafe(self._release, victim)

        return await self.in_thread(lambda: self.store.reserve(key, size, sole, dropped))

    def _unreserve(self, growing: PartialCopy) -> None:
        if growing.is_passing:
            self._passing -= growing.size
        else:
            self.store.unreserve(growing.size)

    def _release(self, key: str) -> None:
        self.claimed.discard(key)
        if self.directory is not None:
            self.directory.release(key)
