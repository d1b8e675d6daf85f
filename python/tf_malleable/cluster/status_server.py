# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""HTTP server of the operator: /metrics, /healthz and /readyz."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest

_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class StatusServer:
    """Metrics and health endpoints of the operator."""

    def __init__(
        self,
        registry: CollectorRegistry,
        is_alive: Callable[[], bool],
        is_ready: Callable[[], bool],
    ) -> None:
        """Create a server that does not listen yet.

        Args:
            registry: Registry of the metrics.
            is_alive: Returns whether the operator still decides.
            is_ready: Returns whether the operator knows the cluster.
        """
        self._registry, self._is_alive, self._is_ready = registry, is_alive, is_ready
        self._runner: web.AppRunner | None = None

    async def start(self, host: str, port: int) -> int:
        """Start to listen and return the port.

        Raises:
            OSError: The address or the port cannot be used.
        """
        application = web.Application()
        application.router.add_get("/metrics", self._metrics)
        application.router.add_get("/healthz", self._health(self._is_alive))
        application.router.add_get("/readyz", self._health(self._is_ready))
        self._runner = web.AppRunner(application, access_log=None)
        await self._runner.setup()
        await web.TCPSite(self._runner, host, port).start()
        return int(self._runner.addresses[0][1])

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _metrics(self, request: web.Request) -> web.Response:
        text = generate_latest(self._registry)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_LATEST})

    def _health(self, is_good: Callable[[], bool]) -> _Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            return web.Response(text="ok\n") if is_good() else web.Response(text="no\n", status=503)

        return answer
