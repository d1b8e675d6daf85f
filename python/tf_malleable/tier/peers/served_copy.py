# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Served copy: a complete copy whose blocks are served to other nodes."""

from __future__ import annotations

import os
from pathlib import Path

from tf_malleable.tier.protocol import Identity
from tf_malleable.tier.store import layout


class ServedCopy:
    """A complete copy whose blocks are served to other nodes."""

    def __init__(self, path: Path, identity: Identity) -> None:
        self.size, self.identity, self._path = identity.size, identity, path

    async def wait_for_blocks(self, first: int, most: int, seconds: float) -> tuple[int, ...]:
        """Return the checksums of at most `most` blocks from `first` on, without waiting.

        Raises:
            OSError: The checksums cannot be read.
        """
        codes = layout.codes_of(self._path, self.size)
        if codes is None:
            raise OSError("the copy has no checksums")
        return codes[first : first + most]

    def open(self) -> int:
        """Return a new descriptor of the copy.

        Raises:
            OSError: The copy is gone.
        """
        return os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
