# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Streaming responses: grants, events, and long histories."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import Any, Final

import msgspec
from aiohttp import web

from tf_malleable.api.routes import JSON, JSON_LINES, ROUTES, Route
from tf_malleable.controller.http.connection import ClientConnection
from tf_malleable.controller.http.request_reader import Handler, body_of, query_of
from tf_malleable.controller.service import Service
from tf_malleable.linux.processes.peer_credentials import Peer

SLOW_SECONDS: Final = 2.0
"""Time in which a reader of changes must accept a line once its socket is full."""


def history(service: Service, caller: Callable[[web.Request], Peer]) -> Handler:
    """Return the handler of the history."""
    (route,) = (route for route in ROUTES if route.name == "history")

    async def handle(request: web.Request) -> web.StreamResponse:
        query: Any = query_of(request, route)
        await body_of(request, route)
        pieces = await service.encoded_history(
            caller(request), query.limit, query.spans, query.since
        )
        # A transport copies what it cannot send at once, which would block the loop for long.
        response = web.StreamResponse()
        response.content_type = JSON
        response.content_length = sum(map(len, pieces))
        await response.prepare(request)
        for piece in pieces:
            await response.write(piece)
        await response.write_eof()
        return response

    return handle


def grants(service: Service, caller: Callable[[web.Request], Peer]) -> Handler:
    """Return the handler of a job's stream of grants."""
    (route,) = (route for route in ROUTES if route.name == "grants")

    async def handle(request: web.Request) -> web.StreamResponse:
        query: Any = query_of(request, route)
        await body_of(request, route)
        watched = service.watch(caller(request), request.match_info["id"], splits=query.split)
        # This task is cancelled when the client disconnects, which closes the generator.
        async with aclosing(watched) as lines:
            line = await anext(lines, None)  # May raise a Refusal, before anything is sent.
            response = await _begin(request)
            while line is not None:
                await response.write(msgspec.json.encode(line) + b"\n")
                line = await anext(lines, None)
                await _turn(request, route)
        return response

    return handle


def events(service: Service, caller: Callable[[web.Request], Peer]) -> Handler:
    """Return the handler of the event stream, which disconnects slow readers."""
    (route,) = (route for route in ROUTES if route.name == "events")

    async def handle(request: web.Request) -> web.StreamResponse:
        query_of(request, route)
        await body_of(request, route)
        async with aclosing(service.events(caller(request))) as lines:
            response = await _begin(request)
            async for line in lines:
                try:
                    await asyncio.wait_for(response.write(line), SLOW_SECONDS)
                except asyncio.TimeoutError:
                    if isinstance(request.protocol, ClientConnection):
                        request.protocol.hang_up()
                    raise ConnectionAbortedError("the client does not read") from None
                await _turn(request, route)
        return response

    return handle


async def _turn(request: web.Request, route: Route) -> None:
    """Wait for the turn of the request's owner, before one more line."""
    connection = request.protocol
    if isinstance(connection, ClientConnection):
        owner = connection.clients.paced(connection)
        if owner is not None:
            await connection.clients.pacing.turn(route.pace, owner)


async def _begin(request: web.Request) -> web.StreamResponse:
    """Begin the response of a stream and return it."""
    response = web.StreamResponse(headers={"Content-Type": JSON_LINES})
    response.force_close()
    # From here on, drop whatever the client sends instead of buffering it.
    request.protocol.close()
    await response.prepare(request)
    return response
