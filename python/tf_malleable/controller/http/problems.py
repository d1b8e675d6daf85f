# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Error responses: one sentence, as JSON."""

from __future__ import annotations

import msgspec
from aiohttp import web

from tf_malleable.api.routes import JSON
from tf_malleable.api.schema.messages import Problem


def problem(status: int, sentence: str) -> web.Response:
    """Return the response to a request that failed or was refused."""
    return web.Response(
        status=status, body=msgspec.json.encode(Problem(sentence)), content_type=JSON
    )


def unasked(status: str, sentence: str) -> bytes:
    """Return the response to a client that is refused before it has sent a request.

    Args:
        status: Number and name of the HTTP status.
        sentence: Reason for the refusal.
    """
    body = msgspec.json.encode(Problem(sentence))
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {JSON}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
