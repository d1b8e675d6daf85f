# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Serves a web application on a socket that is already open.

aiohttp does the HTTP. This adds a limit on connections, and JSON errors for input that
is not HTTP.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable

import msgspec
from aiohttp import web

from tf_malleable.api.messages import Problem
from tf_malleable.controller.http.application import problem

REQUESTS = logging.getLogger(f"{__name__}.requests")

_BACKLOG = 1024

# Time for running requests to finish when the server stops.
_STOP_SECONDS = 0.2


class Server:
    """Serves one application on one socket."""

    def __init__(self, runner: web.AppRunner, server: asyncio.Server) -> None:
        self._runner = runner
        self._server = server

    @classmethod
    async def start(
        cls, app: web.Application, listening: socket.socket, connections: int
    ) -> Server:
        """Start serving.

        Args:
            app: The application to serve.
            listening: A bound socket; closed with the server.
            connections: Maximum number of connections; further ones are refused.
        """
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        server = await asyncio.get_running_loop().create_server(
            _accept(runner, connections), sock=listening, backlog=_BACKLOG
        )
        return cls(runner, server)

    def stop_listening(self) -> None:
        """Accept no more connections; open ones stay."""
        self._server.close()

    async def close(self) -> None:
        """Close all connections, including streams."""
        self._server.close()
        await self._runner.cleanup()


def _accept(runner: web.AppRunner, connections: int) -> Callable[[], asyncio.Protocol]:
    server = runner.server
    assert server is not None
    return lambda: _Connection(server, connections)


class _Connection(web.RequestHandler):
    """One client."""

    def __init__(self, server: web.Server, connections: int) -> None:
        # No decompression: a small compressed body could become huge.
        super().__init__(
            server, loop=asyncio.get_running_loop(), access_log=REQUESTS, auto_decompress=False
        )
        self._server = server
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Serve the client, or refuse it if there are too many."""
        if len(self._server.connections) < self._connections:
            super().connection_made(transport)
            return
        assert isinstance(transport, asyncio.Transport)
        body = msgspec.json.encode(Problem("the controller has too many connections"))
        head = (
            "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        )
        transport.write(head.encode() + body)
        transport.close()

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
