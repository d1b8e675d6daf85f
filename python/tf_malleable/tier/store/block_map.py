# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Block map: the units of a file that a reader has read, or that a partial copy has.

A reader can change its own map at any time. So the daemon reads the file instead of mapping it
into memory: if the reader truncates it, a read fails, while an access to mapped memory would kill
the daemon.
"""

from __future__ import annotations

import os
import struct
from typing import Final

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

THERE: Final = b"\x01"
"""Value of a unit that was read, or is present."""
_NUMBER = struct.Struct("<I")


class BlockMap:
    """A block map, accessed by a descriptor that this object owns.

    Attributes:
        head: Header of the map at the beginning.
    """

    def __init__(self, descriptor: int) -> None:
        """Take over the descriptor of a map.

        Raises:
            ProtocolError: The file is not a valid map. The caller keeps the descriptor.
        """
        try:
            self.head = MapHead.decode(os.pread(descriptor, MAP_BYTES, 0))
        except OSError as error:
            raise ProtocolError(f"the map of a copy cannot be read: {error.strerror}") from None
        self._descriptor = descriptor

    @classmethod
    def create(cls, path: str, identity: Identity, owner: int | None, mode: int) -> BlockMap:
        """Create the map of a copy that the daemon makes.

        Args:
            path: Path of the map.
            identity: Identity of the file in the source.
            owner: User id of the owner; None for the daemon's user.
            mode: Permissions of the map.

        Raises:
            OSError: The disk is full or faulty, or the map exists already.
        """
        unit = unit_of(identity.size)
        units = -(-identity.size // unit)
        head = MapHead(unit, units, MapState.GROWING, identity)
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
        """Close the map."""
        os.close(self._descriptor)

    def set_state(self, state: MapState) -> None:
        """Set the state of the copy.

        Raises:
            OSError: The map cannot be written.
        """
        os.pwrite(self._descriptor, _NUMBER.pack(state), STATE_OFFSET)

    def set_fetching(self, is_fetching: bool) -> None:
        """Set whether the copy is filled ahead of its readers, so that they wait for it.

        Raises:
            OSError: The map cannot be written.
        """
        os.pwrite(self._descriptor, _NUMBER.pack(is_fetching), FETCHING_OFFSET)

    def mark(self, begin: int, end: int) -> None:
        """Mark a byte range as present; it begins and ends at unit boundaries.

        Raises:
            OSError: The map cannot be written.
        """
        first, last = begin // self.head.unit, -(-end // self.head.unit)
        os.pwrite(self._descriptor, THERE * (last - first), MAP_BYTES + first)

    def units(self) -> bytes:
        """Return the bytes of all units, as far as the file contains them.

        Raises:
            OSError: The map cannot be read.
        """
        return os.pread(self._descriptor, self.head.units, MAP_BYTES)
