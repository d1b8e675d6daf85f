# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Source version: the version of a file in the source, and whether it may be copied yet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from tf_malleable.tier.protocol import Identity

SETTLED_SECONDS: Final = 10.0
"""Age below which a modified file may change again with the same modification time."""


@dataclass(frozen=True)
class SourceVersion:
    """The properties that distinguish one version of a file from another.

    Attributes:
        size: Size in bytes.
        mtime_ns: Modification time in nanoseconds since 1970.
        inode: Inode number.
    """

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, about: os.stat_result) -> SourceVersion:
        """Return the version from a stat result."""
        return cls(about.st_size, about.st_mtime_ns, about.st_ino)

    @classmethod
    def of_identity(cls, identity: Identity) -> SourceVersion:
        """Return the version from the identity of a file."""
        return cls(identity.size, identity.mtime_s * 10**9 + identity.mtime_ns, identity.inode)

    def is_settled(self, now: float) -> bool:
        """Return whether the last modification was at least SETTLED_SECONDS ago.

        Args:
            now: Current time in seconds since 1970.
        """
        return now - self.mtime_ns / 1e9 >= SETTLED_SECONDS

    def encode(self) -> str:
        """Return the version as text, which other nodes compare with theirs."""
        return f"{self.size}.{self.mtime_ns}.{self.inode}"
