# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Partial copy: a copy in the making, its present blocks and the waiters for missing ones."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_malleable.tier.protocol import Identity, MapState
from tf_malleable.tier.store import blocks
from tf_malleable.tier.store.block_map import BlockMap
from tf_malleable.tier.store.source_version import SourceVersion

_LOOK_SECONDS: Final = 0.005


class PartialCopy:
    """A copy that readers or the daemon are filling.

    Attributes:
        key: Key of the file.
        identity: Identity of the file in the source.
        version: Version of the file in the source.
        size: Size of the whole file in bytes.
        part: Descriptor of the part: the file with the bytes of the copy.
        map: Block map of the part; None if all bytes are present.
        names: Paths of the part and its map.
        codes: Checksum of each block; None for each one that is unknown.
        by_readers: True if readers fill the part; False if only the daemon does.
        source: Descriptor of the file in the source; -1 for none.
        problem: Reason why the copy was abandoned; empty otherwise.
        is_closed: Whether the copy has been published or abandoned.
        is_passing: Whether there is no room to keep the copy: it is dropped a moment after its
            publication, in which its reader opens it.
        wanted: Whether another node waits, or has waited, for the copy.
    """

    def __init__(
        self,
        key: str,
        identity: Identity,
        part: int,
        growth: BlockMap | None,
        names: Sequence[Path],
        by_readers: bool,
        source: int = -1,
    ) -> None:
        """Take over the descriptors of a part, its map and its source, until end().

        Args:
            key: Key of the file.
            identity: Identity of the file in the source.
            part: Descriptor of the part.
            growth: Block map of the part; None if all bytes are present.
            names: Paths of the part and its map, which end() removes.
            by_readers: True if readers fill the part; False if only the daemon does.
            source: Descriptor of the file in the source; -1 for none.
        """
        self.key, self.identity = key, identity
        self.version = SourceVersion.of_identity(identity)
        self.size = identity.size
        self.part, self.map, self.names = part, growth, tuple(names)
        self.codes: list[int | None] = [None] * blocks.block_count(self.size)
        self.by_readers = by_readers
        self.source = source
        self.problem = ""
        self.wanted = False
        self.is_passing = False
        self.is_closed = False
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def is_whole(self) -> bool:
        """Whether all blocks are present."""
        return self.first_missing() == len(self.codes)

    def take(self, number: int, code: int) -> None:
        """Note that the daemon has written a block.

        Raises:
            OSError: The map cannot be written.
        """
        if self.map is not None:
            self.map.mark(*blocks.span_of(number, self.size))
        self.codes[number] = code
        self._wake()

    def first_missing(self) -> int:
        """Return the number of the first missing block; the number of blocks if none is."""
        units = self._units()
        for number, code in enumerate(self.codes):
            if code is None and not self._is_there(units, number):
                return number
        return len(self.codes)

    def there(self, first: int, most: int) -> tuple[int, ...]:
        """Return the checksums of consecutive present blocks.

        Args:
            first: Number of the first block.
            most: Maximum number of blocks.

        Raises:
            OSError: A present block cannot be read.
        """
        found: list[int] = []
        units = self._units()
        for number in range(first, min(first + most, len(self.codes))):
            code = self.codes[number]
            if code is None:
                if not self._is_there(units, number):
                    break
                span = blocks.span_of(number, self.size)
                code = self.codes[number] = blocks.block_checksum(self.part, *span)
            found.append(code)
        return tuple(found)

    def all_codes(self) -> tuple[int, ...] | None:
        """Return the checksums of all blocks; None if some are missing. Blocks on disk I/O.

        Raises:
            OSError: A present block cannot be read.
        """
        found = self.there(0, len(self.codes))
        return found if len(found) == len(self.codes) else None

    async def wait_for_blocks(self, first: int, most: int, seconds: float) -> tuple[int, ...]:
        """Wait for blocks, and return the checksums of those that are present.

        Args:
            first: Number of the first block.
            most: Maximum number of blocks.
            seconds: Time to wait for the first block.

        Returns:
            The checksums of consecutive blocks; empty if the first one is still missing.

        Raises:
            OSError: The copy no longer grows.
        """
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        self.wanted = True
        while not self.is_closed and not (found := self.there(first, most)):
            left = end - loop.time()
            if left <= 0 or not self.codes:
                return found
            waiting: asyncio.Future[None] = loop.create_future()
            self._waiting.append(waiting)
            # Poll as well: readers only mark their blocks in the map, and send no message.
            await asyncio.wait([waiting], timeout=min(left, _LOOK_SECONDS))
        if self.is_closed:
            raise OSError(self.problem or "the copy has another name now")
        return found

    def open(self) -> int:
        """Return a new descriptor of the part.

        Raises:
            OSError: The copy is closed.
        """
        if self.is_closed:
            raise OSError("the copy does not grow any more")
        return os.open(f"/proc/self/fd/{self.part}", os.O_RDONLY | os.O_CLOEXEC)

    def set_fetching(self, is_fetching: bool) -> None:
        """Tell the readers of the copy whether its bytes come from another node."""
        if self.map is not None:
            with suppress(OSError):
                self.map.set_fetching(is_fetching)

    def end(self, problem: str = "") -> None:
        """Close the copy, and remove the part and its map.

        Args:
            problem: Reason why the copy is abandoned; empty if it has been published.
        """
        if self.is_closed:
            return
        self.is_closed, self.problem = True, problem
        if self.map is not None:
            with suppress(OSError):
                self.map.set_state(MapState.DROPPED if problem else MapState.FULL)
            self.map.close()
        for name in self.names:
            with suppress(OSError):
                os.unlink(name)
        os.close(self.part)
        if self.source >= 0:
            os.close(self.source)
        self._wake()

    def share_there(self) -> float:
        """Return the share of the copy that is present, from 0 to 1."""
        units = self._units()
        if units and self.map is not None:
            return self.map.share_there(units)
        count = len(self.codes) - self.codes.count(None)
        return count / len(self.codes) if self.codes else 1.0

    def _units(self) -> bytes:
        if self.is_closed or not self.by_readers or self.map is None:
            return b""
        try:
            return self.map.units()
        except OSError:
            return b""

    def _is_there(self, units: bytes, number: int) -> bool:
        if self.map is None:
            return not self.is_closed
        return bool(units) and self.map.is_there(units, *blocks.span_of(number, self.size))

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)
