# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Server for other nodes: location records of this home, and blocks of this node's copies.

The header of a request is signed, with the checksum of its body. So the body, which may be large,
is read only from a node.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec
from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from tf_malleable.api.validation import decode_json
from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.node_messages import (
    ANSWER,
    BLOCKS,
    BLOCKS_PATH,
    MOST_BLOCKS,
    RECORDS_PATH,
    SIGNATURE,
    WAIT_SECONDS,
    BlocksHeader,
    RecordsAnswer,
    RecordsMessage,
    decode_key,
)
from tf_malleable.tier.peers.admission import PeerAdmission
from tf_malleable.tier.protocol import Identity
from tf_malleable.tier.request_signature import Signer, checksum
from tf_malleable.tier.store import blocks, layout
from tf_malleable.tier.store.partial_copy import PartialCopy

_LARGEST_MESSAGE = 16 << 20
_BACKLOG = 128


def _is_no_strangers(record: logging.LogRecord) -> bool:
    """Return whether a log record is not of a malformed request, of which a stranger sends many."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


_log = logging.getLogger(__name__)
_log.addFilter(_is_no_strangers)


@dataclass(frozen=True)
class ServedCopy:
    """A complete copy whose blocks are served.

    Attributes:
        path: Path of the copy.
        identity: Identity of the file in the source.
    """

    path: Path
    identity: Identity

    async def wait_for_blocks(self, first: int, most: int, seconds: float) -> tuple[int, ...]:
        """Return the checksums of at most `most` blocks from `first` on, without waiting.

        Raises:
            OSError: The checksums cannot be read.
        """
        codes = layout.codes_of(self.path, self.identity.size)
        if codes is None:
            raise OSError("the copy has no checksums")
        return codes[first : first + most]

    def open(self) -> int:
        """Return a new descriptor of the copy.

        Raises:
            OSError: The copy is gone.
        """
        return os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)


Servable = ServedCopy | PartialCopy
"""A copy of this node whose blocks are served."""


class NodeServer:
    """HTTP server for other nodes."""

    def __init__(
        self,
        signer: Signer,
        tell: Callable[[RecordsMessage], RecordsAnswer],
        find: Callable[[str, str], Awaitable[Servable | None]],
        counters: Counters,
    ) -> None:
        """Create a server.

        Args:
            signer: Signer with the nodes' secret.
            tell: Function that answers a message to this home.
            find: Function that returns the copy of a file from its key and its version, which is
                empty for any; None if there is no copy.
            counters: Counters, to which the bytes of responses are added.
        """
        self._signer, self._tell, self._find, self._counters = signer, tell, find, counters
        self._runner: web.AppRunner | None = None
        self._admission: PeerAdmission | None = None

    async def start(self, host: str, port: int, context: ssl.SSLContext | None) -> int:
        """Listen at an address; return the port.

        Raises:
            OSError: Listening at the address failed.
        """
        application = web.Application(client_max_size=_LARGEST_MESSAGE)
        application.router.add_post(RECORDS_PATH, self._records)
        application.router.add_get(BLOCKS_PATH, self._blocks)
        # Long, as other nodes keep their connections open.
        self._runner = web.AppRunner(
            application,
            access_log=None,
            keepalive_timeout=3600.0,
            shutdown_timeout=0.5,
            lingering_time=0.0,
            logger=_log,
        )
        await self._runner.setup()
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family, backlog=_BACKLOG)
        serve = self._runner.server
        assert serve is not None
        self._admission = PeerAdmission(listening, context, serve)
        bound: int = listening.getsockname()[1]
        return bound

    async def stop(self) -> None:
        """Stop listening, and close all connections."""
        if self._admission is not None:
            await self._admission.close()
        if self._runner is not None:
            await self._runner.cleanup()

    def _checked(self, request: web.Request) -> tuple[str, str]:
        """Verify a request, and admit its sender; return nonce and checksum of the body."""
        assert self._admission is not None
        said = request.headers.get(SIGNATURE, "")
        try:
            found = self._signer.check(request.method, request.raw_path, said, time.time())
        except ValueError as error:
            raise web.HTTPUnauthorized(text=str(error)) from None
        self._admission.admit(request.transport)
        return found

    async def _records(self, request: web.Request) -> web.Response:
        nonce, signed = self._checked(request)
        body = await request.read()
        if checksum(body) != signed:
            raise web.HTTPUnauthorized(text="the body of the request is not the signed one")
        try:
            message = decode_json(body, RecordsMessage)
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        answer = msgspec.json.encode(self._tell(message))
        code = self._signer.sign_answer(nonce, answer.decode())
        return web.Response(body=answer, headers={ANSWER: code})

    async def _blocks(self, request: web.Request) -> web.StreamResponse:
        nonce, _ = self._checked(request)
        query = request.query
        try:
            key = decode_key(query["key"])
            version, first, most = query["version"], int(query["first"]), int(query["most"])
        except (KeyError, ValueError):
            raise web.HTTPBadRequest(text="not a request for blocks of a copy") from None
        for _ in range(2):
            copy = await self._find(key, version)
            if copy is None or not 0 <= first < max(1, blocks.block_count(copy.identity.size)):
                break
            # The copy may be published or replaced meanwhile: then look once more.
            with suppress(OSError):
                codes = await copy.wait_for_blocks(first, min(most, MOST_BLOCKS), WAIT_SECONDS)
                if not codes and copy.identity.size:
                    return web.Response(status=204)
                return await self._send(request, nonce, first, codes, copy)
        raise web.HTTPNotFound(text="no such copy")

    async def _send(
        self,
        request: web.Request,
        nonce: str,
        first: int,
        codes: tuple[int, ...],
        copy: Servable,
    ) -> web.StreamResponse:
        """Send blocks.

        Raises:
            OSError: The copy is gone; nothing has been sent.
        """
        size = copy.identity.size
        header = BlocksHeader(first, size, codes, copy.identity.encode())
        said = msgspec.json.encode(header).decode()
        begin, end = blocks.span_of(first, size)[0], blocks.span_of(first + len(codes) - 1, size)[1]
        response = web.StreamResponse(
            headers={BLOCKS: said, ANSWER: self._signer.sign_answer(nonce, said)}
        )
        response.content_length = length = end - begin if codes else 0
        with os.fdopen(copy.open(), "rb") as file:
            await response.prepare(request)
            transport = request.transport
            if length and transport is not None:
                loop = asyncio.get_running_loop()
                # The peer is gone, or the file has become shorter: the peer notices both.
                with suppress(OSError):
                    sent = await loop.sendfile(transport, file, begin, length)
                    self._counters.served_bytes += sent
                    if sent < length:
                        transport.abort()
            await response.write_eof()
        return response
