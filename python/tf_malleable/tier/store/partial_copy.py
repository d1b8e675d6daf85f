# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Partial copy: a copy that the daemon fills, what its readers have read, and its publication.

A copy is absent, partial, complete, published, and at last evicted. The daemon is the only one
that writes it, reads the bytes itself, and gives it its name.
"""

from __future__ import annotations

import asyncio
import errno
import itertools
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_malleable.linux.file_status import FileStatus, cached_status
from tf_malleable.tier.node_messages import area_and_path
from tf_malleable.tier.protocol import Identity, MapState, name_of
from tf_malleable.tier.store import blocks, layout
from tf_malleable.tier.store.block_map import THERE, BlockMap
from tf_malleable.tier.store.copy_store import CopyStore, Kept
from tf_malleable.tier.store.tenancy import PUBLIC, is_everybodys

WORTH: Final = 0.5
"""Share of a file that its readers must have read for the daemon to complete the copy."""
Status = os.stat_result | FileStatus
_numbers = itertools.count()
_DELETED: Final = " (deleted)"
_OF_DISK: Final = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO)


class NotPublishedError(Exception):
    """A copy cannot be published; the message is one sentence."""


class Reading:
    """What one reader reads of a file.

    Attributes:
        size: Size of the file in bytes.
        is_unseen: Whether the reader reads in a way that the map does not show.
        is_left: Whether the reader has closed the file, but perhaps another one with the same path.
        is_closed: Whether the reader no longer reads the file.
        copy: Partial copy of the file; None while there is none.
    """

    def __init__(self, growth: BlockMap | None, size: int) -> None:
        """Take over a reader's map until it ends; None for a reader that reads unseen."""
        self.size = size
        self._map, self._units = growth, 0
        self._count = 0 if growth is None else growth.head.units
        self.is_unseen = growth is None
        self.is_left = self.is_closed = False
        self.copy: PartialCopy | None = None

    def attach(self, copy: PartialCopy) -> None:
        """Set the pace of a copy from now on."""
        self.copy = copy
        copy.readings.append(self)
        copy.wake_filler()

    def units(self) -> int:
        """Return the bytes of the map, one for each unit that was read, as an integer."""
        if self._map is not None:
            with suppress(OSError):  # The reader has spoiled its own map.
                self._units |= int.from_bytes(self._map.units(), "little")
        return self._units

    def share(self) -> float:
        """Return the share of the file that was read, from 0 to 1.

        It counts units, not blocks: HDF5 files are read with small gaps all over.
        """
        return _share(self.units().to_bytes(self._count, "little"))

    def unseen(self) -> None:
        """Note that the reader goes on in a way that the map does not show."""
        self.is_unseen = True
        self._end()

    def close(self) -> None:
        """Note that the reader no longer reads the file."""
        self.is_closed = True
        self._end()

    def _end(self) -> None:
        self.units()
        if self._map is not None:
            self._map.close()
            self._map = None
        if self.copy is not None:
            self.copy.wake_filler()


class PartialCopy:
    """A copy in the making.

    Attributes:
        key: Key of the file.
        identity: Identity of the file in the source.
        size: Size of the whole file in bytes.
        part: Descriptor of the part: the file with the bytes of the copy.
        codes: Checksum of each block; None for each one that is missing.
        source: Descriptor of the file in the source; -1 for none.
        readings: What this node's readers read of the file.
        problem: Reason why the copy was abandoned; empty otherwise.
        is_closed: Whether the copy has been published or abandoned.
        is_passing: Whether there is no room to keep the copy: it is dropped a moment after its
            publication, in which its reader opens it.
        wanted: Whether somebody wants the whole copy, whatever readers read: another node, or an
            administrator.
    """

    def __init__(
        self,
        key: str,
        identity: Identity,
        part: int,
        growth: BlockMap,
        names: tuple[Path, Path],
        source: int = -1,
    ) -> None:
        """Take over the descriptors of a part, its map and its source, until end().

        Args:
            key: Key of the file.
            identity: Identity of the file in the source.
            part: Descriptor of the part.
            growth: Block map of the part.
            names: Paths of the map and the part.
            source: Descriptor of the file in the source; -1 for none.
        """
        self.key, self.identity = key, identity
        self.size = identity.size
        self.part, self._map, self._names = part, growth, names
        self.codes: list[int | None] = [None] * blocks.block_count(self.size)
        self.source = source
        self.readings: list[Reading] = []
        self.problem = ""
        self.wanted = self.is_passing = self.is_closed = False
        self._waiting: list[asyncio.Future[None]] = []
        self._changed = asyncio.Event()

    @classmethod
    def create(
        cls, store: CopyStore, key: str, identity: Identity, source: int = -1
    ) -> PartialCopy:
        """Create the files of a copy, with its space allocated on the disk. Blocks.

        Args:
            store: Store with room that is reserved for the copy.
            key: Key of the file.
            identity: Identity of the file in the source.
            source: Descriptor of the file, which the copy duplicates; -1 for none.

        Raises:
            OSError: The disk is full or faulty, or there is a partial copy already.
        """
        area, path = area_and_path(key)
        folder = store.growing(area)
        owner, mode = store.owner_and_mode(area)
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        name = name_of(path)
        names = (folder / f"{name}.map", folder / f"{name}.part")
        growth = BlockMap.create(str(names[0]), identity, owner, mode)
        try:
            flags = os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC
            part = os.open(names[1], flags, 0o600)
        except OSError:
            growth.close()
            os.unlink(names[0])
            raise
        copy = cls(key, identity, part, growth, names, os.dup(source) if source >= 0 else -1)
        try:
            if identity.size:
                os.posix_fallocate(part, 0, identity.size)
            layout.give(part, owner, mode)
        except OSError as error:
            copy.end(error.strerror or str(error))
            raise
        return copy

    @property
    def is_whole(self) -> bool:
        """Whether all blocks are present."""
        return self.first_missing() == len(self.codes)

    def take(self, number: int, code: int) -> None:
        """Note that a block has been written.

        Raises:
            OSError: The map cannot be written.
        """
        self._map.mark(*blocks.span_of(number, self.size))
        self.codes[number] = code
        self._wake()

    def first_missing(self) -> int:
        """Return the number of the first missing block; the number of blocks if none is."""
        return self.codes.index(None) if None in self.codes else len(self.codes)

    def there(self, first: int, most: int) -> tuple[int, ...]:
        """Return the checksums of consecutive present blocks.

        Args:
            first: Number of the first block.
            most: Maximum number of blocks.
        """
        found: list[int] = []
        for code in self.codes[first : first + most]:
            if code is None:
                break
            found.append(code)
        return tuple(found)

    @property
    def is_eager(self) -> bool:
        """Whether all missing blocks are to be copied, whatever readers read.

        That is so if a reader reads unseen; and, once all have left, if somebody else wants the
        copy or they have read enough of it.
        """
        if any(reading.is_unseen for reading in self.readings):
            return True
        return self.is_left and (self.wanted or self._share_read() >= WORTH)

    @property
    def is_left(self) -> bool:
        """Whether all readers have closed the file."""
        return all(reading.is_closed for reading in self.readings)

    def due(self) -> list[int]:
        """Return the numbers of the missing blocks that are to be copied now.

        These are the blocks that readers have read, whose bytes are in the kernel's cache, or all
        of them.
        """
        missing = [number for number, code in enumerate(self.codes) if code is None]
        if self.is_eager:
            return missing
        units = self._units_read()
        return [number for number in missing if self._is_read(units, number)]

    def was_read(self, number: int) -> bool:
        """Return whether readers have read all of a block."""
        return self._is_read(self._units_read(), number)

    def _is_read(self, units: bytes, number: int) -> bool:
        begin, end = blocks.span_of(number, self.size)
        first, last = begin // self._map.head.unit, -(-end // self._map.head.unit)
        return units.count(THERE, first, last) == last - first

    def _units_read(self) -> bytes:
        read = 0
        for reading in self.readings:
            read |= reading.units()
        return read.to_bytes(self._map.head.units, "little")

    def _share_read(self) -> float:
        return _share(self._units_read())

    async def wait_for_readers(self, seconds: float) -> None:
        """Wait until a reader begins, stops or goes on unseen, or for some seconds."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), seconds)
        self._changed.clear()

    def wake_filler(self) -> None:
        """End the wait of wait_for_readers()."""
        self._changed.set()

    async def wait_for_blocks(self, first: int, most: int, seconds: float) -> tuple[int, ...]:
        """Wait for blocks, and return the checksums of those that are present.

        Args:
            first: Number of the first block.
            most: Maximum number of blocks.
            seconds: Time to wait for the first block.

        Returns:
            The checksums of consecutive blocks; empty if the first one is still missing.

        Raises:
            OSError: The copy is no longer partial.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        self.wanted = True
        self.wake_filler()
        while not self.is_closed and not (found := self.there(first, most)):
            left = end - loop.time()
            if left <= 0 or not self.codes:
                return found
            waiting: asyncio.Future[None] = loop.create_future()
            self._waiting.append(waiting)
            await asyncio.wait([waiting], timeout=left)
        if self.is_closed:
            raise OSError(self.problem or "the copy has another name now")
        return found

    async def wait_until_closed(self) -> None:
        """Wait until the copy has been published or abandoned."""
        self.wake_filler()
        while not self.is_closed:
            waiting: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(waiting)
            await waiting

    def open(self) -> int:
        """Return a new descriptor of the part.

        Raises:
            OSError: The copy is closed.
        """
        if self.is_closed:
            raise OSError("the copy is no longer partial")
        return os.open(f"/proc/self/fd/{self.part}", os.O_RDONLY | os.O_CLOEXEC)

    def set_fetching(self, is_fetching: bool) -> None:
        """Tell readers whether the copy is filled ahead of them, so that they wait for it."""
        with suppress(OSError):
            self._map.set_fetching(is_fetching)

    def publish(self, store: CopyStore, now: float) -> Kept:
        """Give the complete copy its name in the store, with the room reserved for it. Blocks.

        Args:
            store: Store of the complete copies.
            now: Current time in seconds since 1970.

        Raises:
            NotPublishedError: The source file has changed, or the copy is incomplete.
            OSError: The disk is full or faulty.
        """
        check_source(self.key, self.identity, self.source)
        codes = tuple(code for code in self.codes if code is not None)
        if len(codes) != len(self.codes):
            raise NotPublishedError("not all of it is there")
        layout.mark(self.part, self.identity, codes)
        store.make_folders(self.key)
        os.rename(self._names[1], store.path(self.key))
        kept = Kept(self.key, self.identity, now)
        store.add(kept, 0 if self.is_passing else self.size)
        return kept

    def end(self, problem: str = "") -> None:
        """Close the copy, and remove its map, and the part unless it has been published.

        Args:
            problem: Reason why the copy is abandoned; empty if it has been published.
        """
        if self.is_closed:
            return
        self.is_closed, self.problem = True, problem
        with suppress(OSError):
            self._map.set_state(MapState.DROPPED if problem else MapState.FULL)
        self._map.close()
        for name in self._names if problem else self._names[:1]:
            with suppress(OSError):
                os.unlink(name)
        os.close(self.part)
        if self.source >= 0:
            os.close(self.source)
        self._wake()
        self.wake_filler()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)


def copy_small_file(
    store: CopyStore, key: str, identity: Identity, source: int, now: float
) -> Kept:
    """Copy and publish a file of at most SMALL_FILE_BYTES that was just read. Blocks.

    Args:
        store: Store with room that is reserved for the copy.
        key: Key of the file.
        identity: Identity of the file in the source.
        source: Descriptor of the file, whose bytes are in the kernel's cache.
        now: Current time in seconds since 1970.

    Raises:
        NotPublishedError: The source file has changed.
        OSError: The source cannot be read, or the disk is full or faulty.
    """
    data = os.pread(source, identity.size + 1, 0)
    # The kernel has looked at the path a moment ago.
    check_source(key, identity, source, cached_status)
    if len(data) != identity.size:
        raise NotPublishedError("it could not be read at once")
    area = area_and_path(key)[0]
    owner, mode = store.owner_and_mode(area)
    # Unlike a file without a name (O_TMPFILE), it needs no entry in the list of orphans.
    name = f"{layout.growing_of(store.folder, area)}/{next(_numbers)}.small"
    copy = os.open(name, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        if os.pwrite(copy, data, 0) != len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        codes = (blocks.checksum(data),) if data else ()
        layout.mark(copy, identity, codes)
        layout.give(copy, owner, mode)
        target = layout.path_of(store.folder, key)
        try:
            os.rename(name, target)
        except FileNotFoundError:
            store.make_folders(key)
            os.rename(name, target)
    except BaseException:
        with suppress(OSError):
            os.unlink(name)
        raise
    finally:
        os.close(copy)
    kept = Kept(key, identity, now)
    store.add(kept, identity.size)
    return kept


def check_source(
    key: str, identity: Identity, source: int, look: Callable[[str], Status] = os.lstat
) -> None:
    """Check that a file is what was copied, and that its copy may be in its area.

    Args:
        key: Key of the copy.
        identity: Identity of the file when it was opened.
        source: Descriptor of the file; -1 if the bytes come from another node, which compares its
            copies with the source.
        look: Function that returns the status of a path.

    Raises:
        NotPublishedError: The descriptor or the path is of another version now, or others may no
            longer read the file.
    """
    area, path = area_and_path(key)
    if source >= 0 and not is_still(path, identity, source, look):
        raise NotPublishedError("the file was changed or replaced while it was copied")
    if area == PUBLIC:
        try:
            about = os.stat(path, follow_symlinks=False)
        except OSError as error:
            raise NotPublishedError(f"it cannot be looked at: {error.strerror}") from None
        if not is_everybodys(Path(path), about):
            raise NotPublishedError("not every user may read it any more")


def is_still(
    path: str, identity: Identity, source: int, look: Callable[[str], Status] = os.lstat
) -> bool:
    """Return whether a path in the source and a descriptor still refer to the same version.

    Args:
        path: Path of the file in the source.
        identity: Identity of the file when it was opened.
        source: Descriptor of the file.
        look: Function that returns the status of a path.
    """
    try:
        return identity.is_same(cached_status(source)) and identity.is_same(look(path))
    except PermissionError:
        # The daemon lacks the permission that the reader has.
        return _is_opened_at(path, source, identity.links)
    except OSError:
        return False


def _is_opened_at(path: str, source: int, links: int) -> bool:
    """Return whether the kernel knows a descriptor by a path, which has not been removed.

    Args:
        path: Path of the file in the source.
        source: Descriptor of the file.
        links: Number of names of the file when it was opened.
    """
    known = os.readlink(f"/proc/self/fd/{source}")
    # Where a FUSE server refuses the daemon a name, the kernel forgets the name, and calls the file
    # deleted. A name that is removed is one less.
    is_forgotten = known == path + _DELETED and 0 < links == cached_status(source).st_nlink
    return known == path or is_forgotten


def is_of_disk(error: OSError) -> bool:
    """Return whether an error means that the disk of the store is full or faulty."""
    return error.errno in _OF_DISK


def _share(units: bytes) -> float:
    """Return the share of the units that are marked in the bytes of a map."""
    return units.count(THERE) / max(1, len(units))
