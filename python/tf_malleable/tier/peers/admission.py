# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""PeerAdmission: bounds on what connections cost before they have shown that they are a node's.

Anybody who reaches the port may connect. Until a request is signed as a node's, a connection has
few seconds and few bytes, an address has a share of such connections, and all of them together
are few: with TLS, each takes up to half a megabyte.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Final, cast

UNKNOWN_SECONDS: Final = 5.0
"""Time in which a connection must send a signed request, after the TLS handshake, if any."""
UNKNOWN_BYTES: Final = 64 << 10
"""Bytes that a connection may send before that: some times the header of a request."""
MOST_UNKNOWN: Final = 64
"""Maximum number of connections without a signed request."""
MOST_OF_ADDRESS: Final = 16
"""Maximum number of such connections of one address."""
_RETRY_SECONDS: Final = 0.1

_log = logging.getLogger(__name__)


class _Newcomer(asyncio.Protocol):
    """The protocol of a connection until it is admitted: passes everything on, and counts it."""

    def __init__(self, inner: asyncio.Protocol) -> None:
        self.inner = inner
        self.ended = asyncio.get_running_loop().create_future()
        self._left = UNKNOWN_BYTES
        self._transport: asyncio.Transport | None = None

    @property
    def is_connected(self) -> bool:
        """Whether there is, or was, a transport, which closes the socket."""
        return self._transport is not None

    def admit(self) -> None:
        """Have the connection go on without bounds."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.set_protocol(self.inner)
        self._end()

    def abort(self) -> None:
        """Close the connection at once."""
        if self._transport is not None:
            self._transport.abort()
        self._end()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self.inner.connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._left -= len(data)
        if self._left < 0:
            self.abort()
        else:
            self.inner.data_received(data)

    def eof_received(self) -> bool | None:
        return self.inner.eof_received()

    def connection_lost(self, error: Exception | None) -> None:
        self.inner.connection_lost(error)
        self._end()

    def pause_writing(self) -> None:
        self.inner.pause_writing()

    def resume_writing(self) -> None:
        self.inner.resume_writing()

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


class PeerAdmission:
    """Accepts connections, and bounds those that are not admitted yet."""

    def __init__(
        self,
        listening: socket.socket,
        context: ssl.SSLContext | None,
        serve: Callable[[], asyncio.Protocol],
    ) -> None:
        """Create an admission; needs a running event loop.

        Args:
            listening: Listening socket, which close() closes.
            context: TLS context; None without TLS.
            serve: Function that returns the protocol of a new connection.
        """
        self._listening, self._context, self._serve = listening, context, serve
        self._unknown: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[None]] = set()
        listening.setblocking(False)
        self._keep(self._accept())

    def admit(self, transport: asyncio.BaseTransport | None) -> None:
        """Note that a connection is a node's: it has sent a signed request."""
        if isinstance(transport, asyncio.Transport):
            newcomer = transport.get_protocol()
            if isinstance(newcomer, _Newcomer):
                newcomer.admit()

    async def close(self) -> None:
        """Stop listening, and close the connections that are not admitted yet."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listening)
            except OSError:  # It is gone again, or there are no free descriptors.
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            host = address[0]
            if self._unknown.total() >= MOST_UNKNOWN or self._unknown[host] >= MOST_OF_ADDRESS:
                accepted.close()
                continue
            self._unknown[host] += 1
            self._keep(self._greet(accepted, host))

    async def _greet(self, accepted: socket.socket, host: str) -> None:
        """Serve a connection, until it is admitted, has ended, or its time is up."""
        newcomer = _Newcomer(self._serve())
        try:
            with suppress(OSError):
                accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: newcomer,
                accepted,
                ssl=self._context,
                ssl_handshake_timeout=None if self._context is None else UNKNOWN_SECONDS,
            )
            await asyncio.wait([newcomer.ended], timeout=UNKNOWN_SECONDS)
        except OSError as error:  # Also of a TLS handshake that fails.
            _log.info("a connection from %s: %s", host, error)
        finally:
            if not newcomer.ended.done():
                newcomer.abort()
            if not newcomer.is_connected:
                accepted.close()
            self._unknown[host] -= 1
            if not self._unknown[host]:
                del self._unknown[host]

    def _keep(self, coroutine: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
