# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""WSGI and ASGI middleware: each HTTP request of a web service is a request of tfm.request()."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, MutableMapping
from typing import Any

from tf_malleable.agent.request_latency import RequestTimer

_Scope = MutableMapping[str, Any]
_ASGIApp = Callable[[_Scope, Any, Any], Awaitable[None]]
_WSGIApp = Callable[[dict[str, Any], Any], Iterable[bytes]]


class ASGIMiddleware:
    """Measures each HTTP request of an ASGI application, until its response is complete.

    For Starlette and FastAPI: ``app.add_middleware(tf_malleable.ASGIMiddleware)``.

    Args:
        app: The application.
    """

    def __init__(self, app: _ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: _Scope, receive: object, send: object) -> None:
        """Serve a request; WebSockets and the lifespan protocol are passed on."""
        if scope.get("type") != "http":
            await self._app(scope, receive, send)
            return
        with RequestTimer():
            await self._app(scope, receive, send)


class WSGIMiddleware:
    """Measures each request of a WSGI application, until its response is complete.

    For Flask: ``app.wsgi_app = tf_malleable.WSGIMiddleware(app.wsgi_app)``.

    Args:
        app: The application.
    """

    def __init__(self, app: _WSGIApp) -> None:
        self._app = app

    def __call__(self, environ: dict[str, Any], start_response: object) -> Iterable[bytes]:
        """Serve a request."""
        request = RequestTimer()
        request.__enter__()
        try:
            return _Body(self._app(environ, start_response), request)
        except BaseException:
            request.__exit__(None, None, None)
            raise


class _Body:
    """The body of a response, whose end is that of the request."""

    def __init__(self, chunks: Iterable[bytes], request: RequestTimer) -> None:
        self._chunks, self._request = chunks, request

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._chunks)

    def close(self) -> None:
        """End the request; servers call this in any case (PEP 3333)."""
        try:
            close = getattr(self._chunks, "close", None)
            if close is not None:
                close()
        finally:
            self._request.__exit__(None, None, None)
