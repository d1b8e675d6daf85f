# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which version of a file of the source it is, and whether it may be copied yet."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Final

from tf_malleable.tier.protocol import Identity

SETTLED_SECONDS: Final = 10.0
"""A file that was modified less than this ago may change without another time of modification."""


@dataclass(frozen=True)
class SourceVersion:
    """What tells one version of a file from another.

    Attributes:
        size: In bytes.
        mtime_ns: When it was modified, in nanoseconds since 1970.
        inode: Its number.
    """

    size: int
    mtime_ns: int
    inode: int

    @classmethod
    def of(cls, about: os.stat_result) -> SourceVersion:
        """Return the version that a file's status tells."""
        return cls(about.st_size, about.st_mtime_ns, about.st_ino)

    @classmethod
    def of_identity(cls, identity: Identity) -> SourceVersion:
        """Return the version that is written beside a copy."""
        return cls(identity.size, identity.mtime_s * 10**9 + identity.mtime_ns, identity.inode)

    def is_settled(self, now: float) -> bool:
        """Return whether it was modified long enough ago.

        Args:
            now: Seconds since 1970.
        """
        return now - self.mtime_ns / 1e9 >= SETTLED_SECONDS

    def encode(self) -> str:
        """Return it as text, which other nodes compare with what they see."""
        return f"{self.size}.{self.mtime_ns}.{self.inode}"

    @classmethod
    def decode(cls, text: str) -> SourceVersion:
        """Return what encode() has made.

        Raises:
            ValueError: It is no such text.
        """
        size, mtime_ns, inode = text.split(".")
        return cls(int(size), int(mtime_ns), int(inode))
