# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""HTTP server with bounds on unfinished requests: on their number, and on the time each may take.

Whoever reaches a socket may connect to it, and send half a request, or nothing. aiohttp would wait
for the rest for ever, and each connection is an open file.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

UNFINISHED_SECONDS: Final = 15.0
"""Time for which a connection may be open without a complete request."""

MOST_UNFINISHED: Final = 256
"""Maximum number of such connections; more than asyncio accepts at once."""

# Requests are not logged: whoever can connect would fill the log.
_UNUSED: Final = logging.Logger("requests", logging.CRITICAL)


class HttpServer:
    """Serves one application. Not thread-safe: one asyncio loop."""

    def __init__(self, application: web.Application, *, stop_seconds: float = 0.5) -> None:
        """Create a server that does not listen yet.

        Args:
            application: Application to serve. It answers in :func:`completed`, or by the middleware
                :func:`completing`.
            stop_seconds: Time in which running requests may finish when the server stops.
        """
        self._runner = web.AppRunner(application, shutdown_timeout=stop_seconds)
        self._listening: asyncio.Server | None = None

    async def start(self, listening: socket.socket) -> None:
        """Start serving on a bound socket, which close() closes."""
        await self._runner.setup()
        server = self._runner.server
        assert server is not None
        unfinished = _Unfinished()
        self._listening = await asyncio.get_running_loop().create_server(
            lambda: _Connection(server, unfinished), sock=listening
        )

    async def close(self) -> None:
        """Stop listening, and close all connections."""
        if self._listening is not None:
            self._listening.close()
        await self._runner.cleanup()


@asynccontextmanager
async def completed(request: web.Request) -> AsyncIterator[None]:
    """Provide a context for the answer to a request, once its body has arrived.

    Raises:
        web.HTTPRequestTimeout: The body did not arrive in time.
        web.HTTPRequestEntityTooLarge: The body is larger than the application allows.
    """
    try:
        await asyncio.wait_for(request.read(), UNFINISHED_SECONDS)
    except asyncio.TimeoutError:
        raise web.HTTPRequestTimeout(
            reason=f"the body did not arrive within {UNFINISHED_SECONDS:.0f} seconds"
        ) from None
    connection = request.protocol
    if not isinstance(connection, _Connection):
        yield
        return
    connection.unfinished.remove(connection)
    try:
        yield
    finally:
        if connection.transport is not None:  # It has not been closed meanwhile.
            connection.unfinished.add(connection)


@web.middleware
async def completing(
    request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
) -> web.StreamResponse:
    """Answer each request in :func:`completed`; a middleware."""
    async with completed(request):
        return await handler(request)


class _Unfinished:
    """Connections on which no complete request is in progress, the oldest first.

    If there are too many, the oldest is closed rather than the newest refused: an honest client
    sends its request at once, so whoever holds many connections loses those first.
    """

    def __init__(self) -> None:
        self._timers: dict[_Connection, asyncio.TimerHandle] = {}

    def add(self, connection: _Connection) -> None:
        """Have a connection closed unless it is removed in time."""
        loop = asyncio.get_running_loop()
        self._timers[connection] = loop.call_later(UNFINISHED_SECONDS, connection.hang_up)
        if len(self._timers) > MOST_UNFINISHED:
            next(iter(self._timers)).hang_up()

    def remove(self, connection: _Connection) -> None:
        """Remove a connection, if it is still here."""
        timer = self._timers.pop(connection, None)
        if timer is not None:
            timer.cancel()


class _Connection(web.RequestHandler):
    # The base class has slots.
    __slots__ = ("unfinished",)

    def __init__(self, server: web.Server, unfinished: _Unfinished) -> None:
        super().__init__(server, loop=asyncio.get_running_loop(), access_log=_UNUSED)
        self.unfinished = unfinished

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.unfinished.add(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        self.unfinished.remove(self)
        super().connection_lost(exc)

    def hang_up(self) -> None:
        """Close the connection at once; drop unsent data."""
        self.unfinished.remove(self)
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()
