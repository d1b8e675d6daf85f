# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The same service for gunicorn (WSGI) and uvicorn (ASGI): it answers with its limit."""

from __future__ import annotations

import json
import os
import sys

import tensorflow as tf


def limit():
    """Return this process and its intra-op limit as JSON."""
    tf.constant(1.0) + 1
    malleable = sys.modules.get("tf_malleable")
    threads = None if malleable is None else malleable.get_threads().intra
    return json.dumps({"pid": os.getpid(), "threads": threads}).encode()


def wsgi(environ, start_response):
    start_response("200 OK", [("Content-Type", "application/json")])
    return [limit()]


async def asgi(scope, receive, send):
    if scope["type"] != "http":
        return
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": limit()})
