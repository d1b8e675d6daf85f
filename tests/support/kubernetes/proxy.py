# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What makes the addresses of services lead to pods: a node's kube-proxy, by forwarding bytes."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from tests.support.kubernetes import conditions
from tests.support.kubernetes.api import UnavailableError
from tests.support.kubernetes.client import Client

Object = dict[str, Any]
_CHUNK = 1 << 16


class Proxy:
    """Listens at the addresses of services. Where no pod is ready, connections are cut at once."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._servers: dict[tuple[str, int], asyncio.Server] = {}
        self._services: dict[tuple[str, int], tuple[Object, Object]] = {}
        self._known: list[Object] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def step(self) -> None:
        """Listen where the services are."""
        self._services = {
            (service["spec"]["clusterIP"], port["port"]): (service, port)
            for service in self._client.list("services")
            if service["spec"].get("selector") and service["spec"].get("clusterIP") != "None"
            for port in service["spec"].get("ports", ())
        }
        self._do(self._listen())

    def close(self) -> None:
        """Hang up everywhere."""
        self._services = {}
        self._do(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _listen(self) -> None:
        for where in self._servers.keys() - self._services.keys():
            self._servers.pop(where).close()
        for where in self._services.keys() - self._servers.keys():

            async def serve(
                reader: asyncio.StreamReader,
                writer: asyncio.StreamWriter,
                where: tuple[str, int] = where,
            ) -> None:
                await self._forward(where, reader, writer)

            self._servers[where] = await asyncio.start_server(serve, *where)

    async def _close(self) -> None:
        await self._listen()
        left = asyncio.all_tasks() - {asyncio.current_task()}
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=5)

    async def _forward(
        self, where: tuple[str, int], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            backend = self._backend(where)
            if backend is not None:
                theirs, ours = await asyncio.open_connection(*backend)
                await asyncio.gather(_pump(reader, ours), _pump(theirs, writer))
        except OSError:
            pass
        finally:
            writer.transport.abort()

    def _backend(self, where: tuple[str, int]) -> tuple[str, int] | None:
        service, port = self._services.get(where, ({}, {}))
        if not service:
            return None
        # Nodes go on with the pods that they know while the server is down.
        with suppress(UnavailableError):
            self._known = self._client.list("pods")
        selector, namespace = service["spec"]["selector"], service["metadata"]["namespace"]
        found = [
            pod["status"]["podIP"]
            for pod in self._known
            if pod["metadata"]["namespace"] == namespace
            and selector.items() <= pod["metadata"].get("labels", {}).items()
            and "deletionTimestamp" not in pod["metadata"]
            and conditions.is_true(pod["status"], "Ready")
        ]
        return (random.choice(found), int(port["targetPort"])) if found else None


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
