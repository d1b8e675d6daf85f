# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Takes copies into account that readers have given their place themselves.

A reader says so before it does it. So those of which nothing was heard, as the message was lost
with an earlier daemon, are few; the store is searched for them before copies are compared with the
source.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

from tf_malleable.tier import layout
from tf_malleable.tier.disk import files
from tf_malleable.tier.protocol import SOURCE_ATTRIBUTE, Identity
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store import CopyStore, Kept

ROOM: Final = 1 << 30
"""With so many bytes free, readers need not be told of each one that there is room."""
_TOGETHER_SECONDS: Final = 0.1
_LATEST_SECONDS: Final = 5.0
_COPY_INODE_BYTES: Final = 8


class Adopting:
    """Takes copies into account that readers have published."""

    def __init__(self, service: TierService) -> None:
        """Nothing was said yet."""
        self._service = service
        self._said: dict[str, tuple[Identity, float]] = {}
        self._is_due = False

    def said(self, key: str, identity: Identity) -> None:
        """Note that a reader publishes a copy at this moment; needs a running loop.

        Args:
            key: Of the file.
            identity: Of the file in the source.
        """
        self._said[key] = identity, time.monotonic() + _LATEST_SECONDS
        self._look_soon()

    def _look_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            asyncio.get_running_loop().call_later(_TOGETHER_SECONDS, self._look)

    def _look(self) -> None:
        self._is_due = False
        said, self._said = self._said, {}
        now, adopted = time.monotonic(), []
        for key, (identity, until) in said.items():
            if is_copy_of(self._service.store, key, identity):
                adopted.append(Kept(key, identity, time.time()))
            elif now < until:  # It comes, or is another one, and the daemon is given the part.
                self._said[key] = identity, until
        self.adopt(adopted)
        if self._said:
            self._look_soon()
        if self._service.store.free < 0:
            self._service.in_background(self._make_room(adopted))

    def adopt(self, copies: Collection[Kept]) -> None:
        """Take copies into account, and tell their homes."""
        for kept in copies:
            self._service.store.add(kept)
        directory = self._service.directory
        if directory is not None:
            directory.hold({kept.key: kept.version.encode() for kept in copies})

    async def _make_room(self, adopted: Iterable[Kept]) -> None:
        for kept in adopted:
            if await self._service.reserve(kept.key, 0):
                return
            self._service.forget(kept.key)


def is_copy_of(store: CopyStore, key: str, identity: Identity) -> bool:
    """Return whether a copy of exactly this file is in its place."""
    try:
        said = os.getxattr(layout.name_of_copy(store.folder, key), SOURCE_ATTRIBUTE)
    except OSError:
        return False
    return said[:-_COPY_INODE_BYTES] == identity.encode()[:-_COPY_INODE_BYTES]


def unknown(store: CopyStore) -> list[Kept]:
    """Return the copies in the folders that the store does not know. Blocks."""
    found = []
    for path in files(store.folder):
        key = layout.key_at(store.folder, path)
        if key is None or store.get(key) is not None:
            continue
        with suppress(OSError):
            identity, about = layout.identity_of(path), os.lstat(path)
            if identity is not None and about.st_size == identity.size:
                found.append(Kept(key, identity, about.st_atime))
    return found
