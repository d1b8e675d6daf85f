# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Client connection: admitted or refused, with JSON errors for input that is not HTTP."""

from __future__ import annotations

import asyncio
import logging

from aiohttp import web

from tf_malleable.controller.http.clients import Clients, owner_of
from tf_malleable.controller.http.problems import problem, unasked

REQUESTS = logging.getLogger(f"{__name__}.requests")

# Seconds for which the rest of a refused request is read, so that the client reads the refusal.
_LINGER_SECONDS = 2.0


class ClientConnection(web.RequestHandler):
    """Connection of one client.

    Attributes:
        clients: All connected clients.
    """

    # The base class has slots.
    __slots__ = ("clients",)

    def __init__(self, server: web.Server, clients: Clients) -> None:
        # No decompression: a small compressed body could become huge.
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            access_log=REQUESTS,
            auto_decompress=False,
            lingering_time=_LINGER_SECONDS,
        )
        self.clients = clients

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the client, or refuse it if there are too many or it cannot be identified."""
        owner = owner_of(transport.get_extra_info("socket"))
        now = asyncio.get_running_loop().time()
        if owner is not None and self.clients.admit(self, owner, now):
            super().connection_made(transport)
            return
        assert isinstance(transport, asyncio.Transport)
        if owner is None:
            status, why = "403 Forbidden", "the process that connected has ended: connect again"
        else:
            status, why = "503 Service Unavailable", "the controller has too many connections"
        transport.write(unasked(status, why))
        transport.close()

    def connection_lost(self, exc: BaseException | None) -> None:
        """Forget the client."""
        self.clients.gone(self)
        super().connection_lost(exc)

    def hang_up(self) -> None:
        """Close the connection at once; drop unsent data."""
        transport = self.transport
        self.force_close()
        if transport is not None:
            transport.abort()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer input that is not HTTP and so never reaches the application."""
        if isinstance(exc, ConnectionError):
            raise exc  # The client has disconnected.
        reason = (message or "").partition("\n")[0].rstrip(" :.")
        answer = problem(status, f"not a valid HTTP request: {reason}")
        answer.force_close()
        return answer
