# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader events: turns messages of readers into copies, and decides who fills each copy.

A reader fills the copies of its own user. A copy that every user may read is made by the daemon
alone, from the descriptor that the reader has passed, and not faster than the reader reads: the
bytes come from the page cache, and no reader can put wrong bytes where other users find them.
"""

from __future__ import annotations

import asyncio
import os
import stat
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.peers.peer_fetch import Fetch
from tf_malleable.tier.protocol import Identity, ProtocolError, name_of
from tf_malleable.tier.readers.fill import at_once, fill
from tf_malleable.tier.revalidation import compare
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store import blocks
from tf_malleable.tier.store.block_map import BlockMap
from tf_malleable.tier.store.copy_store import CopyStore
from tf_malleable.tier.store.layout import PRIVATE
from tf_malleable.tier.store.partial_copy import PartialCopy
from tf_malleable.tier.store.publication import new_copy
from tf_malleable.tier.store.source_version import SourceVersion
from tf_malleable.tier.store.tenancy import PUBLIC, area_of, private_area

_LOOK_SECONDS: Final = 0.005
# Share of a file that its reader must have read for the daemon to complete the copy.
_WORTH: Final = 0.5
# Small files are published in batches: period, and most files per batch.
_TOGETHER_SECONDS: Final = 0.02
_MOST_TOGETHER: Final = 256
_LEFT_SECONDS: Final = 10.0


@dataclass
class Opened:
    """A file whose copying a reader has begun.

    Attributes:
        path: Path of the file in the source.
        growing: Partial copy; None while undecided, or if no copy is made.
        pace: Block map of the reader, which sets the pace of the daemon; None if the reader
            fills the copy.
        is_unseen: Whether the reader reads the file in a way that the map does not show.
        is_closed: Whether the reader no longer reads the file.
    """

    path: str
    growing: PartialCopy | None = None
    pace: BlockMap | None = None
    is_unseen: bool = False
    is_closed: bool = False


class ReaderEvents:
    """Handles the messages of readers about copies."""

    def __init__(self, service: TierService, shared: bool) -> None:
        """Create a handler.

        Args:
            service: Service of the tier.
            shared: Whether several users read through the tier.
        """
        self._service, self._shared = service, shared
        self._whole: list[PartialCopy] = []
        self._is_publishing = False

    def admit(self, uid: int) -> None:
        """Allow the programs of a user to make copies.

        Raises:
            OSError: The user's folders cannot be created.
        """
        self._service.store.admit(uid)

    def begin(self, path: str, uid: int, source: int, growth: int, part: int = -1) -> Opened:
        """Begin a copy, with the descriptors that a reader has passed; it closes them at its end.

        Args:
            path: Path of the file in the source.
            uid: User id of the reader.
            source: Descriptor of the file in the source.
            growth: Descriptor of the block map.
            part: Descriptor of the part that the reader fills; -1 if the daemon makes the copy.

        Raises:
            ProtocolError: A descriptor is not of the right file; the caller keeps all of them.
        """
        head = BlockMap(growth)
        about = os.fstat(source)
        if not head.head.identity.is_same(about):
            raise ProtocolError("the map of a copy is of another file")
        name = name_of(path)
        folder = self._service.store.growing(private_area(uid))
        names = (folder / f"{name}.map", folder / f"{name}.part")
        opened = Opened(path)
        if part >= 0:
            if os.fstat(part).st_uid not in (uid, os.geteuid()):
                raise ProtocolError("the part of a copy belongs to another user")
            key = key_of(private_area(uid), path)
            opened.growing = PartialCopy(key, head.head.identity, part, head, names, True, source)
            reason = self._service.refusal(key, path, SourceVersion.of(about))
            if reason:
                opened.growing.end(reason)
            else:
                self._service.in_background(self._by_reader(opened, opened.growing))
            return opened
        opened.pace = head
        self._service.in_background(
            self._by_daemon(opened, uid, source, head.head.identity, is_public=True)
        )
        return opened

    async def _by_reader(self, opened: Opened, growing: PartialCopy) -> None:
        service = self._service
        where = await service.begin(growing)
        if where is None:
            return
        if not where.is_yours:
            growing.set_fetching(True)
            problem = await service.follow(fetch_of(growing), where)
            if not problem or growing.is_closed:
                return
            # Go on as if no other node had a copy.
            service.claimed.add(growing.key)
        if growing.is_whole:
            await service.finish(growing)
        elif opened.is_closed or opened.is_unseen:
            self._go_on(opened, growing)

    async def _by_daemon(
        self, opened: Opened, uid: int, source: int, identity: Identity, is_public: bool
    ) -> None:
        """Copy a file in the daemon: one that every user may read, or one that is read unseen."""
        service = self._service
        try:
            area = private_area(uid)
            if is_public:
                about = os.fstat(source)
                area = await service.in_thread(lambda: area_of(Path(opened.path), about, uid))
            key = key_of(area, opened.path)
            if service.refusal(key, opened.path, SourceVersion.of_identity(identity)):
                return
            # In a folder that the reader's user could write to, the contents are not trusted.
            is_hidden = is_public and area != PUBLIC
            growing = new_copy(
                service.store, key, identity, source, f"daemon/{uid}" if is_hidden else ""
            )
            opened.growing = growing
            where = await service.begin(growing)
            if where is not None and not where.is_yours:
                growing.set_fetching(True)
                problem = await service.follow(fetch_of(growing), where)
                if not problem or growing.is_closed:
                    return
                service.claimed.add(key)
            if where is not None:
                await fill(service, growing, lambda end: _turn(opened, growing, end))
        except OSError as error:
            service.disk_failed(error)
        finally:
            os.close(source)
            if opened.pace is not None:
                opened.pace.close()
                opened.pace = None

    def whole(self, path: str, uid: int, identity: Identity, source: int, part: int = -1) -> None:
        """Copy a file that a reader has read completely, or reads in a way that is not visible.

        Args:
            path: Path of the file in the source.
            uid: User id of the reader.
            identity: Identity of the file when it was opened.
            source: Descriptor of the file in the source.
            part: Descriptor of the complete part that the reader has written; -1 if the daemon
                reads the file.

        Raises:
            ProtocolError: The file has changed, or the part belongs to another user; the caller
                keeps the descriptors.
        """
        about = os.fstat(source)
        if not identity.is_same(about):
            raise ProtocolError("the file was changed since it was opened")
        if part < 0:
            is_public = self._shared and bool(about.st_mode & stat.S_IROTH)
            opened = Opened(path, is_unseen=True)
            self._service.in_background(self._by_daemon(opened, uid, source, identity, is_public))
            return
        if os.fstat(part).st_uid not in (uid, os.geteuid()):
            raise ProtocolError("the part of a copy belongs to another user")
        key = key_of(private_area(uid), path)
        growing = PartialCopy(key, identity, part, None, (), True, source)
        if self._service.refusal(key, path, growing.version):
            growing.end("it is not to be copied")
            return
        self._whole.append(growing)
        # From now on, others see that the copy is coming.
        self._service.growing[key] = growing
        if not self._is_publishing:
            self._is_publishing = True
            self._service.in_background(self._publish())

    async def _publish(self) -> None:
        """Publish small files in batches: a thread switch costs more than publishing one."""
        try:
            while self._whole:
                await asyncio.sleep(_TOGETHER_SECONDS)
                some, self._whole = self._whole[:_MOST_TOGETHER], self._whole[_MOST_TOGETHER:]
                kept = [each for each in some if not each.is_closed]
                await self._service.finish(
                    *[each for each in kept if await self._service.add(each)]
                )
        finally:
            self._is_publishing = False

    def full(self, path: str, uid: int) -> None:
        """Note that a reader has reported a copy as complete."""
        growing = self._service.growing.get(key_of(private_area(uid), path))
        if growing is not None and growing.is_whole:
            self._service.in_background(self._finish(growing))

    def closed(self, opened: Opened) -> None:
        """Note that a reader no longer reads a file."""
        opened.is_closed = True
        growing = opened.growing
        if growing is not None and growing.key in self._service.claimed:
            self._go_on(opened, growing)

    def unseen(self, opened: Opened) -> None:
        """Note that a reader goes on reading in a way that the map does not show."""
        opened.is_unseen = True
        growing = opened.growing
        if growing is not None and growing.key in self._service.claimed:
            self._go_on(opened, growing)

    def changed(self, path: str, uid: int) -> None:
        """Note that a reader has changed a file, or a folder with all files in it."""
        service = self._service
        mine = key_of(private_area(uid), path)
        kept = service.store.below(path)
        for each in kept:
            if each.key == mine or each.key.startswith(mine + "/"):
                service.forget(each.key)
        others = [each for each in kept if service.store.get(each.key) is not None]
        for key in compare(service.store, others):
            service.forget(key)
        for key, growing in tuple(service.growing.items()):
            if key == mine or key.startswith(mine + "/"):
                service.give_up(growing, "the file was changed through the tier")

    def read(self, path: str, uid: int) -> None:
        """Note that a reader has opened a complete copy."""
        for area in (private_area(uid), PUBLIC):
            self._service.read(key_of(area, path))

    async def sweep(self) -> None:
        """Publish complete copies that no reader has reported, and remove unreported parts.

        This is done each second, until cancelled.
        """
        while True:
            await asyncio.sleep(1.0)
            known = {name for copy in self._service.growing.values() for name in copy.names}
            await self._service.in_thread(lambda known=known: _remove(self._service.store, known))  # type: ignore[misc]
            for growing in tuple(self._service.growing.values()):
                # Small files, which have no map, are published when they arrive.
                if growing.by_readers and growing.map is not None and growing.is_whole:
                    await self._finish(growing)

    def _go_on(self, opened: Opened, growing: PartialCopy) -> None:
        """Complete a copy that its reader no longer fills, or abandon it.

        The daemon reads the missing blocks if the reader goes on unseen, another node wants the
        copy, or the reader has read enough of it.
        """
        if not growing.by_readers or growing.is_closed:
            return
        if growing.is_whole:
            self._service.in_background(self._finish(growing))
        elif opened.is_unseen or growing.wanted or growing.share_there() >= _WORTH:
            self._service.in_background(self._fill(growing))
        else:
            self._service.give_up(growing, "its reader has read only a part of it")

    async def _finish(self, growing: PartialCopy) -> None:
        await self._service.finish(growing)

    async def _fill(self, growing: PartialCopy) -> None:
        await fill(self._service, growing, at_once)


async def _turn(opened: Opened, growing: PartialCopy, end: int) -> bool:
    """Wait until the reader has read the block that ends at `end`; return whether to copy it."""
    begin = (end - 1) // blocks.block_size(growing.size) * blocks.block_size(growing.size)
    while not opened.is_unseen:
        pace = opened.pace
        try:
            if pace is None or pace.is_there(pace.units(), begin, end):
                return True
        except OSError:
            return False
        if opened.is_closed:
            return growing.wanted or growing.share_there() >= _WORTH
        await asyncio.sleep(_LOOK_SECONDS)
    return True


def fetch_of(growing: PartialCopy) -> Fetch:
    """Return a fetch from other nodes into an existing partial copy."""

    async def make(identity: Identity) -> PartialCopy:
        return growing

    return Fetch(growing.key, make, growing)


def _remove(store: CopyStore, known: set[Path]) -> None:
    """Remove the parts of readers that ended before they reported them."""
    then = time.time() - _LEFT_SECONDS
    for folder in store.growing(PRIVATE).iterdir():
        for name in folder.iterdir():
            with suppress(OSError):
                if name not in known and os.lstat(name).st_mtime < then:
                    os.unlink(name)
