# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The map of a growing copy: which parts of it are there.

A reader made it, and may do with it what it wants. So it is read, not mapped into memory: reading
what was cut off is an error, where touching mapped memory would end the daemon.
"""

from __future__ import annotations

import os
import struct

from tf_malleable.tier.protocol import (
    FETCHING_OFFSET,
    MAP_BYTES,
    STATE_OFFSET,
    Identity,
    MapHead,
    MapState,
    ProtocolError,
    unit_of,
)

_THERE = b"\x01"
_NUMBER = struct.Struct("<I")


class BlockMap:
    """A map, by a descriptor, which it owns.

    Attributes:
        head: What the header said at first.
    """

    def __init__(self, descriptor: int) -> None:
        """Use a map.

        Raises:
            ProtocolError: It is none. The descriptor is the caller's still.
        """
        try:
            self.head = MapHead.decode(os.pread(descriptor, MAP_BYTES, 0))
        except OSError as error:
            raise ProtocolError(f"the map of a copy cannot be read: {error.strerror}") from None
        self._descriptor = descriptor

    @classmethod
    def create(cls, path: str, identity: Identity, owner: int | None, mode: int) -> BlockMap:
        """Make the map of a copy that the daemon makes.

        Args:
            path: Where.
            identity: Of the file in the source.
            owner: To whom it belongs; None for the daemon's user.
            mode: Its permissions.

        Raises:
            OSError: The disk is full, or does not work, or there is a map.
        """
        unit = unit_of(identity.size)
        units = -(-identity.size // unit)
        head = MapHead(unit, units, MapState.GROWING, True, identity)
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600)
        try:
            os.ftruncate(descriptor, MAP_BYTES + units)
            data = head.encode(is_fetching=False)
            # The magic number comes last.
            os.pwrite(descriptor, data[4:], 4)
            os.pwrite(descriptor, data[:4], 0)
            if owner is not None:
                os.fchown(descriptor, owner, -1)
            os.fchmod(descriptor, mode)
            return cls(descriptor)
        except BaseException:
            os.close(descriptor)
            os.unlink(path)
            raise

    def close(self) -> None:
        """Close it."""
        os.close(self._descriptor)

    def state(self) -> int:
        """Return the state that the header has now; dropped if it cannot be read."""
        try:
            data = os.pread(self._descriptor, 4, STATE_OFFSET)
            return int(_NUMBER.unpack(data)[0])
        except (OSError, struct.error):
            return MapState.DROPPED

    def set_state(self, state: MapState) -> None:
        """Say what state it is in.

        Raises:
            OSError: It cannot be written.
        """
        os.pwrite(self._descriptor, _NUMBER.pack(state), STATE_OFFSET)

    def set_fetching(self, is_fetching: bool) -> None:
        """Say whether the bytes come from another node, so that readers wait for them.

        Raises:
            OSError: It cannot be written.
        """
        os.pwrite(self._descriptor, _NUMBER.pack(is_fetching), FETCHING_OFFSET)

    def mark(self, begin: int, end: int) -> None:
        """Say that some bytes are there, from the beginning of a unit to that of another.

        Raises:
            OSError: It cannot be written.
        """
        first, last = begin // self.head.unit, -(-end // self.head.unit)
        os.pwrite(self._descriptor, _THERE * (last - first), MAP_BYTES + first)

    def units(self) -> bytes:
        """Return all of it, as far as there is something.

        Raises:
            OSError: It cannot be read.
        """
        return os.pread(self._descriptor, self.head.units, MAP_BYTES)

    def is_there(self, units: bytes, begin: int, end: int) -> bool:
        """Return whether some bytes are there, by what units() has returned."""
        first, last = begin // self.head.unit, -(-end // self.head.unit)
        # The file may end before the last byte: what is not there is not marked.
        return units.count(_THERE, first, last) == last - first

    def share_there(self, units: bytes) -> float:
        """Return how much is there, from 0 to 1, by what units() has returned.

        By units, not blocks: a file of HDF5 is read with small gaps all over.
        """
        return units.count(_THERE) / self.head.units
