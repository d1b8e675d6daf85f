# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A copy while it is made: which blocks of it are there, and who waits for more."""

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
    """A copy that is being made, by readers or by the daemon.

    Attributes:
        key: Of the file.
        identity: Of the file in the source.
        version: Of the same.
        size: Of the whole, in bytes.
        part: Descriptor of what grows.
        map: Says which parts are there; None if all of them are.
        names: Of the part and its map.
        codes: The checksum of each block of which it is known.
        by_readers: Readers fill it; or only the daemon does.
        source: Descriptor of the file in the source; -1 for none.
        problem: Why it does not grow any more; empty while it does.
        is_passing: There is no room to keep it: it goes as soon as its reader has it open.
        wanted: Another node waits, or has waited, for it.
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
        """Use a part and its map, which are closed with it.

        Args:
            key: Of the file.
            identity: Of the file in the source.
            part: Descriptor of what grows.
            growth: The map; None if all of it is there.
            names: Of both files, which are removed with it.
            by_readers: Readers fill it.
            source: Descriptor of the file in the source, which is closed with it, too.
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
        """Whether all of it is there."""
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
        """Return the number of the first block that is not there, or how many there are."""
        units = self._units()
        for number, code in enumerate(self.codes):
            if code is None and not self._is_there(units, number):
                return number
        return len(self.codes)

    def there(self, first: int, most: int) -> tuple[int, ...]:
        """Return the checksums of the blocks that are there, from one to the next gap.

        Raises:
            OSError: What is there cannot be read.
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
        """Return the checksums of all blocks; None if some are not there. Blocks on the disk.

        Raises:
            OSError: What is there cannot be read.
        """
        found = self.there(0, len(self.codes))
        return found if len(found) == len(self.codes) else None

    async def wait_for_blocks(self, first: int, most: int, seconds: float) -> tuple[int, ...]:
        """Return the checksums of the blocks from one on that are there; none in time: none.

        Raises:
            OSError: It does not grow any more.
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
            # Readers tell the map, and nobody else.
            await asyncio.wait([waiting], timeout=min(left, _LOOK_SECONDS))
        if self.is_closed:
            raise OSError(self.problem or "the copy has another name now")
        return found

    def open(self) -> int:
        """Return a new descriptor of what is there.

        Raises:
            OSError: It is gone.
        """
        if self.is_closed:
            raise OSError("the copy does not grow any more")
        return os.open(f"/proc/self/fd/{self.part}", os.O_RDONLY | os.O_CLOEXEC)

    def set_fetching(self, is_fetching: bool) -> None:
        """Tell its readers whether the bytes come from another node."""
        if self.map is not None:
            with suppress(OSError):
                self.map.set_fetching(is_fetching)

    def end(self, problem: str = "") -> None:
        """Close it, and remove its names: it is published, or given up for a reason."""
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
        """Return how much of it is there, from 0 to 1."""
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
