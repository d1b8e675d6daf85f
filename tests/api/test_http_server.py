# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests that are never finished cost a server little, and keep nobody else out."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack

import pytest
from aiohttp import web

from tf_malleable.api.transport import http_server
from tf_malleable.api.transport.http_server import HttpServer, completing

Port = int
GOOD = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"
UNFINISHED = {
    "nothing": b"",
    "a head": GOOD[:20],
    "a body": GOOD[:-1],
    "a second head": GOOD + GOOD[:20],
    "a second body": GOOD + GOOD[:-1],
}


def with_server(test: Callable[[Port], Awaitable[None]], seconds: float = 0.0) -> None:
    """Run a test with a server that takes some seconds for an answer."""

    async def answer(request: web.Request) -> web.Response:
        await asyncio.sleep(seconds)
        return web.Response(body=await request.read())

    async def run() -> None:
        application = web.Application(middlewares=[completing])
        application.router.add_post("/", answer)
        listening = socket.create_server(("127.0.0.1", 0))
        server = HttpServer(application)
        await server.start(listening)
        try:
            await asyncio.wait_for(test(listening.getsockname()[1]), 60)
        finally:
            await server.close()
        assert listening.fileno() == -1

    asyncio.run(run())


async def said(port: Port, data: bytes) -> bytes:
    """Return what is answered until the server hangs up."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.fixture
def soon(monkeypatch):
    monkeypatch.setattr(http_server, "UNFINISHED_SECONDS", 0.2)


@pytest.mark.parametrize("what", UNFINISHED)
def test_a_connection_is_closed_that_leaves_unfinished(soon, what):
    async def test(port: Port) -> None:
        answers = await said(port, UNFINISHED[what])
        assert answers.count(b"200 OK") == what.startswith("a second")

    with_server(test)


def test_one_whose_request_is_in_progress_is_not(soon):
    async def test(port: Port) -> None:
        assert b"200 OK" in await said(port, GOOD)

    with_server(test, seconds=1.0)


@pytest.mark.parametrize("what", UNFINISHED)
def test_many_of_them_keep_nobody_out(monkeypatch, what):
    monkeypatch.setattr(http_server, "UNFINISHED_SECONDS", 600)
    monkeypatch.setattr(http_server, "MOST_UNFINISHED", 20)

    async def test(port: Port) -> None:
        with ExitStack() as stack:
            held = []
            for _ in range(60):
                held.append(stack.enter_context(socket.create_connection(("127.0.0.1", port))))
                held[-1].sendall(UNFINISHED[what])
                await asyncio.sleep(0)
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(GOOD)
            assert await reader.readline() == b"HTTP/1.1 200 OK\r\n"
            writer.close()
            # The oldest have been given up.
            for each in held[:30]:
                each.setblocking(False)
                with pytest.raises((BlockingIOError, ConnectionResetError)):  # noqa: PT012
                    while each.recv(1000):
                        pass
                    raise ConnectionResetError

    with_server(test)
