# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A web application on a socket that is open already.

aiohttp does the HTTP. What is added: a limit on connections, and answers in JSON
also to bytes that are no HTTP request.
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

# What is under way when the server stops gets this long to end by itself.
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
        """Serve from now on.

        Args:
            app: What is served.
            listening: A bound socket; closed with the server.
            connections: At most so many at a time, the others are turned away.
        """
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        server = await asyncio.get_running_loop().create_server(
            _accept(runner, connections), sock=listening, backlog=_BACKLOG
        )
        return cls(runner, server)

    def stop_listening(self) -> None:
        """Take no more connections; those there are go on."""
        self._server.close()

    async def close(self) -> None:
        """Cut all connections, streams too."""
        self._server.close()
        await self._runner.cleanup()


def _accept(runner: web.AppRunner, connections: int) -> Callable[[], asyncio.Protocol]:
    server = runner.server
    assert server is not None
    return lambda: _Connection(server, connections)


class _Connection(web.RequestHandler):
    """One client."""

    def __init__(self, server: web.Server, connections: int) -> None:
        # Bodies are taken as they are: unpacked, a small one could be huge.
        super().__init__(
            server, loop=asyncio.get_running_loop(), access_log=REQUESTS, auto_decompress=False
        )
        self._server = server
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to serve, or turn away the client that is one too many."""
        if len(self._server.connections) < self._connections:
            super().connection_made(transport)
            return
        assert isinstance(transport, asyncio.Transport)
        body = msgspec.json.encode(Problem("the controller can take no more connections"))
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
        """Answer what the application has not seen: bytes that are no request."""
        if isinstance(exc, ConnectionError):
            raise exc  # The client has gone; nobody is left to answer.
        reason = (message or "").partition("\n")[0].rstrip(" :.")
        answer = problem(status, f"this is no valid HTTP request: {reason}")
        answer.force_close()
        return answer
