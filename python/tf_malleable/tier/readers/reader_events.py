# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader events: turns what readers read into copies, which the daemon makes.

The daemon copies a block when a reader has read all of it, by the descriptor that the reader has
passed: the bytes come from the kernel's cache, and no reader can put wrong bytes where others find
them. What it may be passed is checked: an ordinary file, opened for reading, that is on the file
system of the source. A reader may pass any descriptor: of a folder, a device, a socket, one without
access (O_PATH). No call here waits for what is behind one.
"""

from __future__ import annotations

import asyncio
import fcntl
import functools
import os
import resource
import stat
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from tf_malleable.linux.file_status import FileStatus, cached_status
from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.protocol import SMALL_FILE_BYTES, Identity, MessageKind, ProtocolError
from tf_malleable.tier.readers.disposal import Disposal
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store.block_map import BlockMap
from tf_malleable.tier.store.copy_store import Kept
from tf_malleable.tier.store.partial_copy import (
    WORTH,
    NotPublishedError,
    Reading,
    copy_small_file,
)
from tf_malleable.tier.store.tenancy import area_of, private_area

MOST_DESCRIPTORS: Final = 2
"""Maximum number of descriptors with one message."""
_READABLE: Final = (os.O_RDONLY, os.O_RDWR)
_BOTH: Final = (os.O_RDWR,)
# By kind: the fewest descriptors, and the access modes that each of them may have.
_FILES: Final[dict[MessageKind, tuple[int, tuple[tuple[int, ...], ...]]]] = {
    MessageKind.READING: (2, (_READABLE, _BOTH)),
    MessageKind.WHOLE: (1, (_READABLE,)),
    MessageKind.UNSEEN: (0, (_READABLE,)),
}
# Small files are copied in batches: longest wait for more files, and most files per batch.
_TOGETHER_SECONDS: Final = 0.25
_MOST_TOGETHER: Final = 256
_NICE: Final = 19
# A file of more than this share of the capacity evicts others only if it is read.
_LARGE_SHARE: Final = 0.125
_LOOK_SECONDS: Final = 0.1
# No user's readers have more than one of so many parts of the daemon's descriptors held.
_SHARE_OF_DESCRIPTORS: Final = 8


class Reader(NamedTuple):
    """User of a reader.

    Attributes:
        uid: User id, whose copies the reader gets.
        account: User id that limits per user count.
    """

    uid: int
    account: int


class _HandedFile(NamedTuple):
    """A file that a reader reads, with the descriptor by which the daemon copies it."""

    path: str
    reader: Reader
    identity: Identity
    source: int
    about: FileStatus


class ReaderEvents:
    """Makes copies of what readers read."""

    def __init__(
        self, service: TierService, shared: bool, copied: Callable[[str, int], None]
    ) -> None:
        """Create a handler.

        Args:
            service: Service of the tier.
            shared: Whether several users read through the tier.
            copied: Callback for each small file that was copied: receives its path, and the user
                id of its reader.
        """
        self._service, self._shared, self._copied = service, shared, copied
        self._small: list[_HandedFile] = []
        self._is_copying = False
        self._is_batch_full = asyncio.Event()
        # By user id: descriptors of files in the source that are held for a user's readers.
        self._held: Counter[int] = Counter()
        self._most_held = resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_DESCRIPTORS
        self._disposals: defaultdict[int, Disposal] = defaultdict(Disposal)
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        # A separate thread: on Linux, each thread has its own niceness, which it cannot lower
        # again without privilege. Readers of small files come first.
        self._thread = ThreadPoolExecutor(
            1, "tier-small", lambda: os.setpriority(os.PRIO_PROCESS, 0, _NICE)
        )

    def reading(
        self, path: str, reader: Reader, source: int, growth: int, about: FileStatus
    ) -> Reading:
        """Begin to copy what a reader reads; takes over both descriptors.

        Args:
            path: Path of the file in the source.
            reader: User of the reader.
            source: Descriptor of the file in the source.
            growth: Descriptor of the block map in which the reader marks what it has read.
            about: Status of the file in the source.

        Raises:
            ProtocolError: A descriptor is not of the right file; the caller keeps both.
        """
        head = BlockMap(growth)
        file = self._hold(path, reader, head.head.identity, source, about)
        reading = Reading(head, file.identity.size)
        self._service.in_background(self._copy(reading, file))
        return reading

    def unseen(
        self, path: str, reader: Reader, identity: Identity, source: int, about: FileStatus
    ) -> None:
        """Copy a file that a reader reads in a way that is not visible; takes the descriptor.

        Raises:
            ProtocolError: The file has changed since it was opened; the caller keeps it.
        """
        file = self._hold(path, reader, identity, source, about)
        self._service.in_background(self._copy(Reading(None, file.identity.size), file))

    def whole(
        self, path: str, reader: Reader, identity: Identity, source: int, about: FileStatus
    ) -> None:
        """Copy a small file that a reader has read to its end; takes over the descriptor.

        Raises:
            ProtocolError: The file has changed since it was opened, or is not small; the caller
                keeps the descriptor.
        """
        if identity.size > SMALL_FILE_BYTES:
            raise ProtocolError("a small file must be small")
        self._small.append(self._hold(path, reader, identity, source, about))
        if len(self._small) >= _MOST_TOGETHER:
            self._is_batch_full.set()
        if not self._is_copying:
            self._is_copying = True
            self._service.in_background(self._copy_small_files())

    def _hold(
        self, path: str, reader: Reader, claimed: Identity, source: int, about: FileStatus
    ) -> _HandedFile:
        """Count a descriptor among those of a user; return its file.

        Args:
            path: Path of the file in the source.
            reader: User of the reader.
            claimed: Identity that the reader has seen at the open. Of its fields, those that a
                copy shows to other users are not believed.
            source: Descriptor of the file.
            about: Status of the file.

        Raises:
            ProtocolError: The user has too many, or the file has changed.
        """
        if self._held[reader.account] >= self._most_held:
            raise ProtocolError("the readers of a user have too many files copied at a time")
        if not claimed.is_same(about):
            raise ProtocolError("the file was changed since it was opened")
        self._held[reader.account] += 1
        return _HandedFile(path, reader, Identity.of(about), source, about)

    async def _copy(self, reading: Reading, file: _HandedFile) -> None:
        """Have a file copied at the pace of a reader, of which there may be others."""
        service, path, identity, source = self._service, file.path, file.identity, file.source
        try:
            key = await service.in_thread(lambda: self._key(file, service.devices_of))
            # Readers often open a file at the same moment.
            async with self._locks.setdefault(key, asyncio.Lock()):
                known = service.growing.get(key)
                if known is not None and known.identity.version == identity.version:
                    reading.attach(known)
                    return
                is_refused = service.refusal(key, path, identity)
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
            self._let_go(file)
            if reading.copy is None:
                reading.close()

    def _let_go(self, file: _HandedFile) -> None:
        """Close a descriptor, of which nobody knows yet whether it is of the source's file system.

        A user's own may let whoever closes a file wait.
        """
        loop = asyncio.get_running_loop()

        def closed() -> None:
            with suppress(RuntimeError):  # The loop has ended.
                loop.call_soon_threadsafe(self._held.subtract, (file.reader.account,))

        self._disposals[file.reader.account].close([file.source], closed)

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

    def _key(self, file: _HandedFile, devices_of: Callable[[str], Sequence[int]]) -> str:
        """Return the key of the copy for a reader. Blocks.

        Args:
            file: File that was handed over.
            devices_of: TierService.devices_of(), or its results of a moment ago.

        Raises:
            ProtocolError: The descriptor is not of a file of the source.
        """
        path, about = file.path, file.about
        if about.st_dev not in devices_of(os.path.dirname(path)):
            raise ProtocolError("the descriptor is of a file outside the source")
        if self._shared and about.st_mode & stat.S_IROTH:
            return key_of(area_of(Path(path), about, file.reader.uid), path)
        return key_of(private_area(file.reader.uid), path)

    async def _copy_small_files(self) -> None:
        """Copy small files in batches: a switch of threads costs more than copying one."""
        try:
            while self._small:
                if len(self._small) < _MOST_TOGETHER:
                    self._is_batch_full.clear()
                    with suppress(asyncio.TimeoutError):
                        await asyncio.wait_for(self._is_batch_full.wait(), _TOGETHER_SECONDS)
                some, self._small = self._small[:_MOST_TOGETHER], self._small[_MOST_TOGETHER:]
                await self._copy_some(some)
        finally:
            self._is_copying = False

    async def _copy_some(self, some: list[_HandedFile]) -> None:
        loop, service = asyncio.get_running_loop(), self._service
        keys = await loop.run_in_executor(self._thread, self._keys, some)
        for each in (each for key, each in zip(keys, some, strict=True) if not key):
            self._let_go(each)
        ours = [each for key, each in zip(keys, some, strict=True) if key]
        admitted: dict[str, _HandedFile] = {}
        try:
            # Several processes may have read the same file.
            for key, each in dict(zip(keys, some, strict=True)).items():
                if (
                    key
                    and not service.refusal(key, each.path, each.identity)
                    and await service.make_way(key, each.identity.size)
                ):
                    admitted[key] = each
        finally:
            results = await loop.run_in_executor(self._thread, self._copy_batch, admitted, ours)
            self._held.subtract(each.reader.account for each in ours)
        service.adopt(results)
        for key, result in results.items():
            if isinstance(result, Kept):
                self._copied(admitted[key].path, admitted[key].reader.uid)

    def _keys(self, files: list[_HandedFile]) -> list[str]:
        """Return the keys of small files; empty for those that may not be copied. Blocks."""
        found, devices_of = [], functools.cache(self._service.devices_of)
        for each in files:
            try:
                found.append(self._key(each, devices_of))
            except (ProtocolError, OSError):
                found.append("")
        return found

    def _copy_batch(
        self, files: dict[str, _HandedFile], all_: list[_HandedFile]
    ) -> dict[str, Kept | Exception]:
        """Copy those files that are admitted, and close all descriptors. Blocks."""
        found: dict[str, Kept | Exception] = {}
        for key, each in files.items():
            try:
                found[key] = copy_small_file(
                    self._service.store, key, each.identity, each.source, time.time()
                )
            except (NotPublishedError, OSError) as error:
                self._service.store.unreserve(each.identity.size)
                found[key] = error
        for each in all_:
            os.close(each.source)
        return found


def check_files(kind: MessageKind, descriptors: Sequence[int]) -> list[FileStatus]:
    """Check that the descriptors are as many files as belong to a message, with their access.

    Returns:
        The status of each file.

    Raises:
        ProtocolError: They are not.
    """
    least, modes = _FILES.get(kind, (0, ()))
    if not least <= len(descriptors) <= len(modes):
        raise ProtocolError(f"{len(descriptors)} descriptors do not belong to such a message")
    found = []
    for descriptor, allowed in zip(descriptors, modes, strict=False):
        flags = fcntl.fcntl(descriptor, fcntl.F_GETFL)
        # First, as it asks no file system.
        if flags & os.O_PATH or flags & os.O_ACCMODE not in allowed:
            raise ProtocolError("a descriptor of a copy does not permit what a copy needs")
        try:
            about = cached_status(descriptor)
        except OSError as error:  # Such as in a user's FUSE, which answers nobody else.
            raise ProtocolError(f"a file cannot be looked at: {error.strerror}") from None
        if not stat.S_ISREG(about.st_mode):
            raise ProtocolError("the descriptors of a copy must be of files")
        found.append(about)
    if kind is MessageKind.READING:
        _check_map(descriptors[1])
    return found


def _check_map(descriptor: int) -> None:
    """Check that a descriptor is of a file in memory, whose reads never wait for anybody.

    Raises:
        ProtocolError: It is of something else.
    """
    try:
        fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
    except OSError:
        raise ProtocolError("the map of a copy must be a memfd") from None
