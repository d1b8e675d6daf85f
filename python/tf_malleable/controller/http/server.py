# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""HTTP server: serves a web application on an already open socket, with aiohttp."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

from aiohttp import web

from tf_malleable.controller.clock import until_next
from tf_malleable.controller.http.acceptor import Acceptor
from tf_malleable.controller.http.clients import Clients, trusted_owners
from tf_malleable.controller.http.connection import REQUESTS, ClientConnection
from tf_malleable.controller.http.problems import unasked

__all__ = ["REQUESTS", "Server"]

_SWEEP_SECONDS = 1.0

# Time in which running requests may finish when the server stops.
_STOP_SECONDS = 0.2

_TOO_OFTEN = unasked("503 Service Unavailable", "the caller connects too often: try again later")


class Server:
    """Serves one application on one socket."""

    def __init__(self, runner: web.AppRunner, acceptor: Acceptor, clients: Clients) -> None:
        self._runner = runner
        self._acceptor = acceptor
        self._sweeping = asyncio.create_task(_sweep(acceptor, clients))

    @classmethod
    async def start(
        cls, app: web.Application, listening: socket.socket, connections: int
    ) -> Server:
        """Start serving.

        Args:
            app: Application to serve.
            listening: Bound socket; closed with the server.
            connections: Maximum number of connections; further ones are refused.
        """
        runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=_STOP_SECONDS)
        await runner.setup()
        clients = Clients(connections, trusted_owners())
        acceptor = Acceptor(listening, _serve(runner, clients), _TOO_OFTEN)
        return cls(runner, acceptor, clients)

    def stop_listening(self) -> None:
        """Stop accepting connections; open ones stay."""
        self._acceptor.stop()

    async def close(self) -> None:
        """Close all connections, including streams."""
        self._sweeping.cancel()
        self._acceptor.stop()
        await self._runner.cleanup()


async def _sweep(acceptor: Acceptor, clients: Clients) -> None:
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(until_next(_SWEEP_SECONDS))
        acceptor.forget_calm()
        clients.sweep(loop.time())


def _serve(runner: web.AppRunner, clients: Clients) -> Callable[[], asyncio.Protocol]:
    server = runner.server
    assert server is not None
    return lambda: ClientConnection(server, clients)
