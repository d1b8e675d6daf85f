# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fetching of a copy from peers, whose copies may be complete or partial, one after the other.

Only bytes that match their checksums are accepted. If the copy does not grow for two seconds, or
no peer has one, fetching ends, and the readers read the source.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.node_messages import BlocksHeader
from tf_malleable.tier.peers.node_client import NoCopyError, NodeClient, PeerGoneError, RottenError
from tf_malleable.tier.protocol import Identity, ProtocolError
from tf_malleable.tier.store import blocks
from tf_malleable.tier.store.partial_copy import PartialCopy

IDLE_SECONDS: Final = 2.0
"""Time without growth of a peer's copy after which the source is read."""

Make = Callable[[Identity], Awaitable[PartialCopy]]
"""Makes the copy that is to grow, once a peer has said what file it is.

Raises:
    OSError: It cannot be made.
"""


class Fetch:
    """The fetching of one file from peers.

    Attributes:
        key: Key of the file.
        copy: Partial copy; None until a peer has sent the identity of the file.
    """

    def __init__(self, key: str, into: PartialCopy | Make) -> None:
        """Create a fetch.

        Args:
            key: Key of the file.
            into: Partial copy, or the function that creates it.
        """
        self.key, self._into, self._descriptor = key, into, -1
        self.copy = into if isinstance(into, PartialCopy) else None

    async def begin(self, header: BlocksHeader) -> None:
        """Take a peer's description of the file, and create the copy if need be.

        Raises:
            RottenError: The description is malformed, or belongs to another file than before.
            OSError: The copy cannot be created, or has been closed.
        """
        try:
            identity = Identity.decode(header.identity)
        except ProtocolError:
            raise RottenError from None
        if identity.size != header.size:
            raise RottenError
        if self.copy is None:
            assert not isinstance(self._into, PartialCopy)
            self.copy = await self._into(identity)
        elif (identity.size, identity.inode) != (self.copy.size, self.copy.identity.inode):
            raise RottenError
        if self.copy.is_closed:
            raise OSError(self.copy.problem)
        if self._descriptor < 0:
            self._descriptor = os.dup(self.copy.part)

    async def take(self, number: int, data: bytearray, code: int) -> None:
        """Write a block whose checksum has been verified.

        Raises:
            OSError: The block cannot be written.
        """
        assert self.copy is not None
        begin = blocks.span_of(number, self.copy.size)[0]
        descriptor = self._descriptor
        # In a thread: a slow disk must not block the event loop.
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, blocks.write_all, descriptor, data, begin)
        if not self.copy.is_closed:
            self.copy.take(number, code)

    def close(self) -> None:
        """Close the descriptor of the part, if open."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class PeerFetch:
    """Fetches blocks from peers into partial copies."""

    def __init__(
        self,
        client: NodeClient,
        counters: Counters,
        rotten: Callable[[str, str], None],
    ) -> None:
        """Create a fetcher.

        Args:
            client: Client for other nodes.
            counters: Counters, to which the bytes of blocks are added.
            rotten: Callback that receives the node and the key of a copy that did not match its
                checksums.
        """
        self._client, self._counters, self._rotten = client, counters, rotten

    async def follow(self, fetch: Fetch, holders: Sequence[str]) -> str:
        """Fetch the missing blocks until the copy is complete.

        Returns:
            Empty, or the reason why the copy is incomplete.
        """
        problem = "no node has a copy"
        try:
            for node in holders:
                if not self._client.allows(node):
                    problem = f"node {node} did not answer and is left alone for a while"
                    continue
                problem = await self._follow(fetch, node)
                if not problem:
                    return ""
        except OSError as error:
            return f"cannot write the copy: {error.strerror or error}"
        finally:
            fetch.close()
        return problem

    async def _follow(self, fetch: Fetch, node: str) -> str:
        async def take(number: int, data: bytearray, code: int) -> None:
            await fetch.take(number, data, code)
            self._counters.peer_bytes += len(data)

        grew_at = time.monotonic()
        while (copy := fetch.copy) is None or not copy.is_whole:
            if copy is not None and copy.is_closed:
                return copy.problem
            version = "" if copy is None else copy.identity.version
            first = 0 if copy is None else copy.first_missing()
            try:
                got = await self._client.fetch(node, fetch.key, version, first, fetch.begin, take)
            except NoCopyError:
                return f"node {node} has no copy any more"
            except RottenError:
                self._rotten(node, fetch.key)
                return f"the copy of node {node} failed its checksum"
            except PeerGoneError as error:
                if not self._client.allows(node) or time.monotonic() > grew_at + IDLE_SECONDS:
                    return f"node {node} did not answer: {error}"
                await asyncio.sleep(0.02)
                continue
            if got:
                grew_at = time.monotonic()
            elif time.monotonic() > grew_at + IDLE_SECONDS:
                return f"the copy of node {node} did not grow for {IDLE_SECONDS:.0f} s"
        return ""
