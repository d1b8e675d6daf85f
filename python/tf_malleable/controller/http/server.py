# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Serves a web application on a socket that is already open; aiohttp does the HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from aiohttp import web

from tf_malleable.controller.http.clients import IDLE_SECONDS, Clients, trusted_owners
from tf_malleable.controller.http.connection import REQUESTS, ClientConnection

__all__ = ["REQUESTS", "Server"]

_BACKLOG = 1024
# asyncio accepts as many connections before it does anything else.
_ACCEPTED_AT_ONCE = 8
_SWEEP_SECONDS = 1.0

# Time for running requests to finish when the server stops.
_STOP_SECONDS = 0.2


class Server:
    """Serves one application on one socket."""

    def __init__(self, runner: web.AppRunner, server: asyncio.Server, clients: Clients) -> None:
        self._runner = runner
        self._server = server
        self._sweeping = asyncio.create_task(_sweep(clients))

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
        clients = Clients(connections, trusted_owners())
        server = await asyncio.get_running_loop().create_server(
            _accept(runner, clients), sock=listening, backlog=_ACCEPTED_AT_ONCE
        )
        # asyncio has told the kernel the same number.
        listening.listen(_BACKLOG)
        return cls(runner, server, clients)

    def stop_listening(self) -> None:
        """Accept no more connections; open ones stay."""
        self._server.close()

    async def close(self) -> None:
        """Close all connections, including streams."""
        self._sweeping.cancel()
        self._server.close()
        await self._runner.cleanup()


async def _sweep(clients: Clients) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(_SWEEP_SECONDS)
        clients.close_idle(loop.time() - IDLE_SECONDS)


def _accept(runner: web.AppRunner, clients: Clients) -> Callable[[], asyncio.Protocol]:
    server = runner.server
    assert server is not None
    return lambda: ClientConnection(server, clients)
