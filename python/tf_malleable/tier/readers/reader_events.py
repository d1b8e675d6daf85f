# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader events: turns what readers read into copies, which the daemon makes.

The daemon copies a block when a reader has read all of it, by the descriptor that the reader has
passed: the bytes come from the kernel's cache, and no reader can put wrong bytes where others find
them. What it may be passed is checked: an ordinary file, opened for reading, that is on the file
system of the source.
"""

from __future__ import annotations

import asyncio
import os
import resource
import stat
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from tf_malleable.linux.file_status import cached_status
from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.protocol import SMALL_FILE_BYTES, Identity, ProtocolError
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store.block_map import BlockMap
from tf_malleable.tier.store.copy_store import Kept
from tf_malleable.tier.store.partial_copy import (
    WORTH,
    NotPublishedError,
    Reading,
    copy_small_file,
)
from tf_malleable.tier.store.source_version import SourceVersion
from tf_malleable.tier.store.tenancy import PUBLIC, area_of, private_area

# Small files are copied in batches: period, and most files per batch.
_TOGETHER_SECONDS: Final = 0.02
_MOST_TOGETHER: Final = 256
_NICE: Final = 19
# A file of more than this share of the capacity evicts others only if it is read.
_LARGE_SHARE: Final = 0.125
_LOOK_SECONDS: Final = 0.1
# No user's readers have more than one of so many parts of the daemon's descriptors held.
_SHARE_OF_DESCRIPTORS: Final = 8


class _SmallFile(NamedTuple):
    """A small file that a reader has read, with the descriptor by which the daemon copies it."""

    path: str
    uid: int
    identity: Identity
    source: int


class ReaderEvents:
    """Makes copies of what readers read."""

    def __init__(
        self, service: TierService, shared: bool, copied: Callable[[str, int, int], None]
    ) -> None:
        """Create a handler.

        Args:
            service: Service of the tier.
            shared: Whether several users read through the tier.
            copied: Callback for each small file that was copied: receives its path, the user id
                of its reader, and its size in bytes.
        """
        self._service, self._shared, self._copied = service, shared, copied
        self._small: list[_SmallFile] = []
        self._is_copying = False
        # By user id: descriptors of files in the source that are held for a user's readers.
        self._held: Counter[int] = Counter()
        self._most_held = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_DESCRIPTORS
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # A separate thread: on Linux, each thread has its own niceness, which it cannot lower
        # again without privilege. Readers of small files come first.
        self._thread = ThreadPoolExecutor(
            1, "tier-small", lambda: os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        )

    def admit(self, uid: int) -> None:
        """Allow the programs of a user to have copies.

        Raises:
            OSError: The user's folders cannot be created.
        """
        self._service.store.admit(uid)

    def read(self, path: str, uid: int) -> None:
        """Note that a reader has opened a complete copy."""
        for area in (private_area(uid), PUBLIC):
            self._service.read(key_of(area, path))

    def reading(self, path: str, uid: int, source: int, growth: int) -> Reading:
        """Begin to copy what a reader reads; takes over both descriptors.

        Args:
            path: Path of the file in the source.
            uid: User id of the reader.
            source: Descriptor of the file in the source.
            growth: Descriptor of the block map in which the reader marks what it has read.

        Raises:
            ProtocolError: A descriptor is not of the right file; the caller keeps both.
        """
        head = BlockMap(growth)
        identity = self._hold(uid, source, head.head.identity)
        reading = Reading(head, identity.size)
        self._service.in_background(self._copy(reading, path, uid, identity, source))
        return reading

    def unseen(self, path: str, uid: int, identity: Identity, source: int) -> None:
        """Copy a file that a reader reads in a way that is not visible; takes the descriptor.

        Raises:
            ProtocolError: The file has changed since it was opened; the caller keeps it.
        """
        own = self._hold(uid, source, identity)
        self._service.in_background(self._copy(Reading(None, own.size), path, uid, own, source))

    def whole(self, path: str, uid: int, identity: Identity, source: int) -> None:
        """Copy a small file that a reader has read to its end; takes over the descriptor.

        Raises:
            ProtocolError: The file has changed since it was opened, or is not small; the caller
                keeps the descriptor.
        """
        if identity.size > SMALL_FILE_BYTES:
            raise ProtocolError("a small file must be small")
        own = self._hold(uid, source, identity)
        self._small.append(_SmallFile(path, uid, own, source))
        if not self._is_copying:
            self._is_copying = True
            self._service.in_background(self._copy_small_files())

    def _hold(self, uid: int, source: int, claimed: Identity) -> Identity:
        """Count a descriptor among those of a user; return the identity of its file.

        Raises:
            ProtocolError: The user has too many, or _identity_of() has raised it.
        """
        if self._held[uid] >= self._most_held:
            raise ProtocolError("the readers of a user have too many files copied at a time")
        identity = _identity_of(source, claimed)
        self._held[uid] += 1
        return identity

    def _let_go(self, uid: int, source: int) -> None:
        os.close(source)
        self._held[uid] -= 1

    async def _copy(
        self, reading: Reading, path: str, uid: int, identity: Identity, source: int
    ) -> None:
        """Have a file copied at the pace of a reader, of which there may be others."""
        service = self._service
        try:
            key = await service.in_thread(lambda: self._key(path, uid, source))
            version = SourceVersion.of_identity(identity)
            # Readers often open a file at the same moment.
            async with self._locks.setdefault(key, asyncio.Lock()):
                known = service.growing.get(key)
                if known is not None and known.version == version:
                    reading.attach(known)
                    return
                is_refused = service.refusal(key, path, version)
                copy = None
                if not is_refused and await self._is_worth(reading, identity.size):
                    copy = await service.create(key, identity, source)
                if copy is not None:
                    reading.attach(copy)
            if copy is not None:
                await service.complete(copy)
        except ProtocolError as error:
            service.refused(path, error)
        finally:
            self._let_go(uid, source)
            if reading.copy is None:
                reading.close()

    async def _is_worth(self, reading: Reading, size: int) -> bool:
        """Wait until a reader has read so much of a file that its copy may evict many others."""
        store = self._service.store
        if size <= max(store.free, store.capacity * _LARGE_SHARE):
            return True
        while not reading.is_unseen and reading.share() < WORTH:
            if reading.is_closed:
                return False
            await asyncio.sleep(_LOOK_SECONDS)
        return True

    def _key(self, path: str, uid: int, source: int) -> str:
        """Return the key of the copy for a reader. Blocks.

        Raises:
            ProtocolError: The descriptor is not of a file of the source.
        """
        about = cached_status(source)
        if about.st_dev not in self._service.devices_of(path):
            raise ProtocolError("the descriptor is of a file outside the source")
        if self._shared and about.st_mode & stat.S_IROTH:
            return key_of(area_of(Path(path), about, uid), path)
        return key_of(private_area(uid), path)

    async def _copy_small_files(self) -> None:
        """Copy small files in batches: a switch of threads costs more than copying one."""
        try:
            while self._small:
                await asyncio.sleep(_TOGETHER_SECONDS)
                some, self._small = self._small[:_MOST_TOGETHER], self._small[_MOST_TOGETHER:]
                try:
                    await self._copy_some(some)
                finally:
                    for each in some:
                        self._let_go(each.uid, each.source)
        finally:
            self._is_copying = False

    async def _copy_some(self, some: list[_SmallFile]) -> None:
        loop, service = asyncio.get_running_loop(), self._service
        keys = await loop.run_in_executor(self._thread, self._keys, some)
        admitted = {
            key: each
            # Several processes may have read the same file.
            for key, each in dict(zip(keys, some, strict=True)).items()
            if key
            and not service.refusal(key, each.path, SourceVersion.of_identity(each.identity))
            and await service.make_way(key, each.identity.size)
        }
        results = await loop.run_in_executor(self._thread, self._copy_batch, admitted)
        service.adopt(results)
        for key, result in results.items():
            if isinstance(result, Kept):
                self._copied(admitted[key].path, admitted[key].uid, result.size)

    def _keys(self, files: list[_SmallFile]) -> list[str]:
        """Return the keys of small files; empty for those that may not be copied. Blocks."""
        found = []
        for each in files:
            try:
                found.append(self._key(each.path, each.uid, each.source))
            except (ProtocolError, OSError):
                found.append("")
        return found

    def _copy_batch(self, files: dict[str, _SmallFile]) -> dict[str, Kept | Exception]:
        found: dict[str, Kept | Exception] = {}
        for key, each in files.items():
            try:
                found[key] = copy_small_file(
                    self._service.store, key, each.identity, each.source, time.time()
                )
            except (NotPublishedError, OSError) as error:
                self._service.store.unreserve(each.identity.size)
                found[key] = error
        return found


def _identity_of(source: int, claimed: Identity) -> Identity:
    """Return the identity of a file that a reader has opened.

    Args:
        source: Descriptor of the file.
        claimed: Identity that the reader has seen at the open. Of its fields, those that a copy
            shows to other users are not believed.

    Raises:
        ProtocolError: The descriptor is of something else, or the file has changed.
    """
    about = cached_status(source)
    if not claimed.is_same(about):
        raise ProtocolError("the file was changed since it was opened")
    return Identity.of(about)
