# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tier service: the life cycle of copies on one node, from admission to eviction."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Callable, Coroutine, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.peers.directory import Directory
from tf_malleable.tier.peers.location_records import Location
from tf_malleable.tier.peers.peer_fetch import Fetch, PeerFetch
from tf_malleable.tier.protocol import Identity
from tf_malleable.tier.store import blocks
from tf_malleable.tier.store.copy_store import CopyStore, Kept
from tf_malleable.tier.store.partial_copy import NotPublishedError, PartialCopy, is_of_disk

_DISK_PAUSE_SECONDS: Final = 30.0
_FULL_SECONDS: Final = 5.0
_SLOW_SECONDS: Final = 2.0
_THREADS: Final = 16
# Copies for which there is no room: their total bytes at a time, and the time in which a reader
# must open one.
_MOST_PASSING: Final = 256 << 20
_PASSING_SECONDS: Final = 1.0
# Pauses between two looks at what readers have read: the first, and the longest.
_LOOK_SECONDS: Final = (0.005, 0.1)
_PIECE: Final = 1 << 20

Fill = Callable[[PartialCopy], Coroutine[Any, Any, None]]
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
        begun: Callback for each partial copy that begins, in any thread: receives its key.
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
        self.begun: Callable[[str], object] = lambda key: None
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

    def devices_of(self, folder: str) -> tuple[int, ...]:
        """Return the device numbers that the files of a folder in the source may have. Blocks.

        The first is that of the folder, if the daemon may look at it; the last that of the source.
        """
        found = []
        for source in self._sources:
            if f"{folder}/".startswith(f"{source}/"):
                for each in (folder, source):
                    with suppress(OSError):
                        found.append(os.stat(each).st_dev)
        return tuple(found)

    def refusal(self, key: str, path: str, identity: Identity) -> str:
        """Return the reason against a copy of a file; empty if a copy may begin.

        Args:
            key: Key of the copy.
            path: Absolute path of the file in the source.
            identity: Identity of the file, from its descriptor.
        """
        if not self.is_source(path):
            return "it is not below the source"
        kept = self.store.get(key)
        if kept is not None and kept.identity.version == identity.version:
            return "there is a complete copy"
        if key in self.growing:
            return "its copy grows already"
        if not identity.is_settled(self._clock()):
            return "it was modified less than 10 s ago"
        return self.problem

    async def create(
        self, key: str, identity: Identity, source: int = -1, *, may_pass: bool = False
    ) -> PartialCopy | None:
        """Begin a copy, if there is room; room is reserved before any is taken on the disk.

        Args:
            key: Key of the file.
            identity: Identity of the file in the source.
            source: Descriptor of the file, which the copy duplicates; -1 for none.
            may_pass: True to accept the copy for a short time if there is no room: another node
                keeps the file.
        """
        has_room = await self.make_way(key, identity.size)
        is_passing = not has_room and may_pass and self._passing + identity.size <= _MOST_PASSING
        if not has_room and not is_passing:
            self.counters.unpublished += 1
            self._release(key)
            return None

        def begin() -> PartialCopy:
            self.begun(key)
            return PartialCopy.create(self.store, key, identity, source)

        try:
            copy = await self.in_thread(begin)
        except OSError as error:  # Another reader may have begun it at the same moment.
            if has_room:
                self.store.unreserve(identity.size)
            self.disk_failed(error)
            return None
        if is_passing:
            copy.is_passing = True
            self._passing += copy.size
        self.growing[key] = copy
        return copy

    async def make_way(self, key: str, size: int) -> bool:
        """Drop the copy of another version, and reserve room; return whether there is room."""
        if self.store.get(key) is not None:
            self.forget(key)
        has_room = await self._reserve(key, size)
        if not has_room:
            self._full_until = self._clock() + _FULL_SECONDS
        return has_room

    async def complete(self, copy: PartialCopy, fill: Fill | None = None) -> None:
        """Fill a copy, from another node's copy or from the source, and publish it.

        Args:
            copy: Partial copy.
            fill: Function that fills it from the source and publishes it; None if the source is
                the copy's descriptor.
        """
        where = await self._locate(copy)
        if where is None:
            return
        if not where.is_yours:
            copy.set_fetching(True)
            problem = await self.follow(Fetch(copy.key, copy), where)
            if not problem or copy.is_closed:
                return
            # Go on as if no other node had a copy.
            self.claimed.add(copy.key)
        await (fill or self._fill)(copy)

    async def _fill(self, copy: PartialCopy) -> None:
        """Copy from the source what readers read, and publish the copy once it is complete."""
        if copy.is_closed:
            return
        # Duplicates: both may be closed, and their numbers reused, while a thread copies.
        target, source = os.dup(copy.part), os.dup(copy.source)
        pause, longest = _LOOK_SECONDS
        try:
            while not copy.is_closed and not copy.is_whole:
                is_eager = copy.is_eager
                copy.set_fetching(is_eager)
                due = copy.due()
                for number in due:
                    begin, end = blocks.span_of(number, copy.size)
                    code, seconds = await self.in_thread(
                        lambda span=(begin, end): _copy_block(source, target, *span)  # type: ignore[misc]
                    )
                    self._wrote(seconds)
                    if is_eager and not copy.was_read(number):
                        self.counters.source_bytes += end - begin
                    if copy.is_closed:
                        return
                    copy.take(number, code)
                if not due and copy.is_left:
                    self.give_up(copy, "its readers have read only a part of it")
                    return
                pause = _LOOK_SECONDS[0] if due else min(pause * 1.5, longest)
                if not copy.is_whole:
                    await copy.wait_for_readers(pause)
        except OSError as error:
            self.disk_failed(error)
            self.give_up(copy, f"{error.strerror or error}")
            return
        finally:
            os.close(target)
            os.close(source)
        await self.finish(copy)

    async def _locate(self, copy: PartialCopy) -> Location | None:
        """Ask for the location of a copy's bytes; None if it has been abandoned meanwhile."""
        where = Location(True)
        if self.directory is not None:
            where = await self.directory.ask(copy.key, copy.identity.version)
        if copy.is_closed:
            if where.is_yours and self.store.get(copy.key) is None:
                self._release(copy.key)
            return None
        if where.is_yours:
            self.claimed.add(copy.key)
        return where

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

    async def finish(self, copy: PartialCopy) -> None:
        """Publish a complete copy; abandon it if it cannot be published."""
        if copy.is_closed or copy.key in self._finishing:
            return
        self._finishing.add(copy.key)
        try:
            await self.in_thread(lambda: copy.publish(self.store, self._clock()))
        except (NotPublishedError, OSError) as error:
            self._finishing.discard(copy.key)
            if isinstance(error, OSError):
                self.disk_failed(error)
            self.give_up(copy, str(error))
        else:
            self._finishing.discard(copy.key)
            self._published(copy)

    def adopt(self, results: Mapping[str, Kept | Exception]) -> None:
        """Note which small files have been copied, and return the room of the others.

        Args:
            results: By key, the copy, or why there is none.
        """
        kept = {key: each for key, each in results.items() if isinstance(each, Kept)}
        if self.directory is not None:
            self.directory.hold({key: each.identity.version for key, each in kept.items()})
        for key, error in results.items():
            if isinstance(error, Exception):
                self.counters.unpublished += 1
                if isinstance(error, OSError):
                    self.disk_failed(error)
                self._release(key)
                _log.info("no copy of %s: %s", key, error)

    def refused(self, path: str, reason: Exception) -> None:
        """Note that a reader has handed over what it must not."""
        self.counters.unpublished += 1
        _log.info("no copy of %s: %s", path, reason)

    def _published(self, growing: PartialCopy) -> None:
        key = growing.key
        self.growing.pop(key, None)
        self.claimed.discard(key)
        growing.end()
        if growing.is_passing:
            self._passing -= growing.size
            asyncio.get_running_loop().call_later(_PASSING_SECONDS, self.store.drop, key)
        elif self.directory is not None:
            self.directory.hold({key: growing.identity.version})
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

    async def check(self, key: str) -> bool:
        """Return whether a copy matches its checksums; drop it if not."""
        is_good = await self.in_thread(lambda: self.store.check(key))
        if not is_good:
            self.counters.rotten += 1
            self.forget(key)
        return is_good

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

    def _wrote(self, seconds: float) -> None:
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


def _copy_block(source: int, target: int, begin: int, end: int) -> tuple[int, float]:
    """Copy a part of a file; return its checksum, and the seconds spent on writing."""
    code, seconds = 0, 0.0
    while begin < end:
        data = os.pread(source, min(_PIECE, end - begin), begin)
        if not data:
            raise OSError("the file was cut off while it was copied")
        code = blocks.checksum(data, code)
        began = time.monotonic()
        blocks.write_all(target, data, begin)
        begin += len(data)
        seconds += time.monotonic() - began
    return code, seconds
