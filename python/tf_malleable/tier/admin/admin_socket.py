# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Administrative socket: HTTP on a Unix socket beside that of the readers.

Every user who may read through the tier may ask for the status. Only the tier's own user and
root may warm, drop or check; requests of other users are refused.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import msgspec
from aiohttp import web

from tf_malleable.api.schema.messages import Problem
from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.api.schema.tier import (
    CHECK,
    DROP,
    STATUS,
    WARM,
    WHY,
    PathsMessage,
)
from tf_malleable.api.transport.http_server import HttpServer, completed
from tf_malleable.api.validation import decode_json
from tf_malleable.linux.processes.peer_credentials import peer_of
from tf_malleable.tier.admin.admin import TierAdmin
from tf_malleable.tier.object_names import SCHEME, paths_of

_JSON = "application/json"
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class AdminSocket:
    """HTTP server for administrative requests."""

    def __init__(self, tier: TierAdmin) -> None:
        self._tier = tier
        application = web.Application(middlewares=[_problems])
        application.router.add_get(STATUS, self._status)
        application.router.add_post(WARM, self._act)
        application.router.add_post(DROP, self._act)
        application.router.add_post(CHECK, self._act)
        application.router.add_post(WHY, self._why)
        self._server = HttpServer(application)
        self._path: Path | None = None

    async def start(self, path: Path, mode: int) -> None:
        """Listen at a path, replacing a socket there: the lock of the store excludes other tiers.

        Raises:
            OSError: Listening at the path failed.
        """
        with suppress(FileNotFoundError):
            path.unlink()
        listening = socket.socket(socket.AF_UNIX)
        try:
            listening.bind(str(path))
            os.chmod(path, mode)
            await self._server.start(listening)
        except BaseException:
            listening.close()
            raise
        self._path = path

    async def stop(self) -> None:
        """Stop listening."""
        await self._server.close()
        if self._path is not None:
            with suppress(OSError):
                self._path.unlink()

    async def _status(self, request: web.Request) -> web.Response:
        return _answer(await self._tier.status())

    async def _act(self, request: web.Request) -> web.Response:
        if _uid(request) not in (0, os.geteuid()):
            raise Refusal(403, "only the tier's own user and root may do that")
        paths = (await _message(request)).paths
        act = {WARM: self._tier.warm, DROP: self._tier.drop, CHECK: self._tier.check}[request.path]
        return _answer(await act(paths))

    async def _why(self, request: web.Request) -> web.Response:
        paths = (await _message(request)).paths
        if len(paths) != 1:
            raise Refusal(400, "one file must be named")
        return _answer(await self._tier.why(paths[0], _uid(request)))


async def _message(request: web.Request) -> PathsMessage:
    try:
        return checked(decode_json(await request.read(), PathsMessage))
    except ValueError as error:
        raise Refusal(400, str(error)) from None


def checked(message: PathsMessage) -> PathsMessage:
    """Return a message whose paths are absolute, or URLs of objects.

    Raises:
        ValueError: A path is neither; the error is one sentence.
    """
    for path in message.paths:
        if not path.startswith(("/", SCHEME)):
            raise ValueError(f"a path must be absolute, not {path!r:.80}")
        paths_of(path)
    return message


def _uid(request: web.Request) -> int:
    transport = request.transport
    if transport is None:
        raise Refusal(400, "the client has hung up")
    return peer_of(transport.get_extra_info("socket")).uid


def _answer(body: object) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type=_JSON)


@web.middleware
async def _problems(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        async with completed(request):
            return await handler(request)
    except Refusal as refusal:
        return web.Response(
            status=refusal.status,
            body=msgspec.json.encode(Problem(refusal.sentence)),
            content_type=_JSON,
        )
