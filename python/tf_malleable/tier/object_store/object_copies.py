# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Object copies: copies of S3 objects in the store, and their growth from S3 or another node.

They are private copies of the daemon's user. Their version is like that of a file: the modification
time is Last-Modified, and a hash of the ETag is in the place of the inode.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import BinaryIO

import aiohttp

from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.object_names import ObjectTarget, file_of
from tf_malleable.tier.object_store.upstream import (
    ANSWER_SECONDS,
    FAILURES,
    Upstream,
    UpstreamError,
)
from tf_malleable.tier.protocol import Identity
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store import blocks
from tf_malleable.tier.store.copy_store import Kept
from tf_malleable.tier.store.partial_copy import PartialCopy
from tf_malleable.tier.store.tenancy import private_area


@dataclass(frozen=True)
class ObjectStatus:
    """What S3 says about an object.

    Attributes:
        etag: ETag, with its quotes.
        identity: The object as a file.
        headers: Headers of the answer.
    """

    etag: str
    identity: Identity
    headers: Mapping[str, str]

    @classmethod
    def of(cls, answer: aiohttp.ClientResponse) -> ObjectStatus | None:
        """Return the status from the answer to a HEAD or GET; None if it does not have one."""
        headers = answer.headers
        try:
            etag, size = headers["ETag"], int(headers["Content-Length"])
            modified = int(parsedate_to_datetime(headers["Last-Modified"]).timestamp())
        except (KeyError, ValueError):
            return None
        if answer.status != 200 or not etag:
            return None
        number = int.from_bytes(hashlib.blake2b(etag.encode(), digest_size=8).digest(), "little")
        mode, block_size = stat.S_IFREG | 0o600, 4096
        identity = Identity(
            0, number, size, modified, modified, modified, 0, 0, 0, 0, 0, mode, os.geteuid(),
            os.getegid(), 1, -(-size // 512), block_size,
        )  # fmt: skip
        return cls(etag, identity, headers)


class ObjectCopies:
    """Finds and begins copies of objects. All methods run in one event loop."""

    def __init__(self, service: TierService, upstream: Upstream) -> None:
        """Create it for the copies of a service, which come from an S3 service."""
        self.service, self._upstream = service, upstream

    def is_known(self, key: str) -> bool:
        """Return whether there is a copy of any version, on this node or perhaps on another."""
        service, is_alone = self.service, self.service.directory is None
        return not is_alone or key in service.growing or service.store.get(key) is not None

    async def find(
        self,
        key: str,
        target: ObjectTarget,
        status: ObjectStatus,
        answer: aiohttp.ClientResponse | None,
    ) -> Kept | PartialCopy | None:
        """Return the copy of this version of an object, begun if need be; None if there is no room.

        A copy that is begun takes over the answer with all bytes; without one, S3 is asked.
        """
        service, version = self.service, status.identity.version
        kept, copy = service.store.get(key), service.growing.get(key)
        if kept is not None and kept.identity.version != version:
            service.forget(key)
            kept = None
        if answer is not None and (kept is not None or copy is not None):
            answer.close()
        if kept is not None:
            service.read(key)
            return kept
        if copy is not None:
            return copy if copy.identity.version == version else None
        if service.problem or status.identity.size > service.largest:
            return None
        copy = await service.create(key, status.identity)
        if copy is not None:
            copy.wanted = True
            fill = partial(self._fill, target=target, status=status, answer=answer)
            service.in_background(service.complete(copy, fill))
        return copy

    async def ask_for(
        self, target: ObjectTarget, status: ObjectStatus, begin: int, end: int
    ) -> aiohttp.ClientResponse:
        """Ask S3 for bytes of this version of an object.

        Raises:
            UpstreamError: It does not answer, or has another version now.
        """
        headers, is_part = {"if-match": status.etag}, (begin, end) != (0, status.identity.size)
        if is_part:
            headers["range"] = f"bytes={begin}-{end - 1}"
        self.service.counters.source_opens += 1
        answer = await self._upstream.ask("GET", target, headers)
        found = (answer.status, answer.headers.get("ETag"), answer.headers.get("Content-Length"))
        if found != (206 if is_part else 200, status.etag, str(end - begin)):
            answer.close()
            raise UpstreamError(f"S3 has other bytes now, and answers with {answer.status}")
        return answer

    async def _fill(
        self,
        copy: PartialCopy,
        target: ObjectTarget,
        status: ObjectStatus,
        answer: aiohttp.ClientResponse | None,
    ) -> None:
        """Fill a copy from S3, and publish it."""
        begin = copy.first_missing() * blocks.block_size(copy.size)
        try:
            if not copy.is_whole and not copy.is_closed:
                answer = answer or await self.ask_for(target, status, begin, copy.size)
                await self._take_blocks(copy, answer)
        except FAILURES as error:
            if isinstance(error, OSError):
                self.service.disk_failed(error)
            self.service.give_up(copy, str(error) or "S3 sent nothing for too long")
        else:
            await self.service.finish(copy)
        finally:
            if answer is not None:
                answer.close()

    async def _take_blocks(self, copy: PartialCopy, answer: aiohttp.ClientResponse) -> None:
        first = copy.first_missing()
        # A duplicate: the part may be closed, and its number reused, while a thread writes.
        with open(os.dup(copy.part), "wb") as part:
            part.seek(first * blocks.block_size(copy.size))
            for number in range(first, len(copy.codes)):
                begin, end = blocks.span_of(number, copy.size)
                reading = answer.content.readexactly(end - begin)
                data = await asyncio.wait_for(reading, ANSWER_SECONDS)
                self.service.counters.source_bytes += len(data)
                code = await self.service.in_thread(partial(_write, part, data))
                if copy.is_closed:
                    return
                copy.take(number, code)


def copy_key(target: ObjectTarget) -> str | None:
    """Return the key of the copy of an object; None if it can have no copy."""
    try:
        return key_of(private_area(os.geteuid()), file_of(target.bucket, target.key))
    except ValueError:
        return None


def _write(part: BinaryIO, data: bytes) -> int:
    """Write a block, and return its checksum."""
    part.write(data)
    part.flush()
    return blocks.checksum(data)
