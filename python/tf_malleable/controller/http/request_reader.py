# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Request intake: reads and validates the parameters and the body of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import msgspec
from aiohttp import web

from tf_malleable.api.routes import Route
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.validation import decode_body, decode_query
from tf_malleable.controller.http.clients import BODY_SECONDS
from tf_malleable.controller.http.connection import ClientConnection

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def query_of(request: web.Request, route: Route) -> msgspec.Struct | None:
    """Return the parameters of a request; None if its route has none.

    Raises:
        Refusal: The parameters are invalid.
    """
    if route.query is not None:
        return decode_query(request.query.items(), route.query)
    if request.query:
        raise Refusal(400, f"{route.method} {route.path} takes no parameters")
    return None


async def body_of(request: web.Request, route: Route) -> msgspec.Struct | None:
    """Return the body of a request; None if its route has none.

    Raises:
        Refusal: The body is invalid, or did not arrive in time.
    """
    if route.body is not None:
        return decode_body(await _text(request), route.body)
    if request.can_read_body:
        raise Refusal(400, f"{route.method} {route.path} takes no body")
    return None


async def _text(request: web.Request) -> bytes:
    if request.content.is_eof() or not isinstance(request.protocol, ClientConnection):
        return await request.read()
    with request.protocol.clients.reading_body(request.protocol):
        try:
            return await asyncio.wait_for(request.read(), BODY_SECONDS)
        except asyncio.TimeoutError:
            raise Refusal(
                408, f"the body did not arrive within {BODY_SECONDS:.0f} seconds"
            ) from None
