# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Server process of the page, on 127.0.0.1 or on a Unix socket."""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import signal
import socket
import stat
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.api.transport.http_server import HttpServer
from tf_malleable.linux.trusted_folder import TrustedFolder
from tf_malleable.model import OperationError
from tf_malleable.web.access import LOOPBACK, Access
from tf_malleable.web.application import web_application

PORT: Final = 8823
"""Default port, if it is free."""

_STOP_SECONDS: Final = 0.2


@dataclass(frozen=True)
class PageOptions:
    """Options of a page.

    Attributes:
        controller: Path of the controller's socket.
        port: TCP port on 127.0.0.1, 0 for any free one; None for the usual one, or any.
        unix: Path of a Unix socket to listen at instead; None for none.
        hosts: Further names under which the page may be opened.
        read_only: True if no client may change anything.
        trusted: True if every client that can connect has access, under any name, as through
            an authenticating proxy.
    """

    controller: Path
    port: int | None = None
    unix: Path | None = None
    hosts: tuple[str, ...] = ()
    read_only: bool = False
    trusted: bool = False


def serve(options: PageOptions, say: Callable[[str], None]) -> None:
    """Serve the page until SIGTERM, SIGINT or SIGHUP.

    Args:
        options: The page's options.
        say: Called with the address, once it can be opened.

    Raises:
        ValueError: An option is invalid.
        OperationError: The server cannot listen there.
    """
    if options.trusted and options.unix is None:
        raise ValueError("running without a token requires --unix")
    if options.port is not None and options.unix is not None:
        raise ValueError("--port and --unix exclude each other")
    if options.port is not None and not 0 <= options.port <= 65535:
        raise ValueError(f"--port must be a port from 0 to 65535, not {options.port}")
    listening = _tcp(options.port) if options.unix is None else _unix(options.unix)
    try:
        asyncio.run(_serve(options, listening, say))
    finally:
        listening.close()
        if options.unix is not None:
            options.unix.unlink(missing_ok=True)


async def _serve(
    options: PageOptions, listening: socket.socket, say: Callable[[str], None]
) -> None:
    token = None if options.trusted else secrets.token_urlsafe(24)
    port = PORT if options.unix is not None else listening.getsockname()[1]
    access = Access(
        token,
        None if options.trusted else LOOPBACK | {*options.hosts},
        options.read_only,
    )
    app = web_application(str(options.controller), access)
    server = HttpServer(app, stop_seconds=_STOP_SECONDS)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    try:
        await server.start(listening)
        say(_address(options, port, token))
        await stop.wait()
    finally:
        await server.close()


def _address(options: PageOptions, port: int, token: str | None) -> str:
    # A browser sends no fragment to anybody.
    fragment = "" if token is None else f"#token={token}"
    if options.unix is None:
        return f"http://127.0.0.1:{port}/{fragment}"
    if token is None:
        return f"listening at {options.unix}"
    where = os.path.abspath(options.unix)
    host = socket.gethostname()
    return f"ssh -L {port}:{where} {host}, then http://localhost:{port}/{fragment}"


def _tcp(port: int | None) -> socket.socket:
    """Return a socket that listens on 127.0.0.1."""
    try:
        return socket.create_server(("127.0.0.1", PORT if port is None else port))
    except OSError as error:
        if port is None and error.errno == errno.EADDRINUSE:
            return socket.create_server(("127.0.0.1", 0))
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise OperationError(
            f"cannot listen on port {port} of 127.0.0.1: {reason}; choose another with --port"
        ) from None


def _unix(path: Path) -> socket.socket:
    """Return a socket that listens at a path, where only this user can connect."""
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    usual = os.umask(0o177)
    try:
        TrustedFolder(path.parent).close()  # Nobody else can change what the path leads to.
        _remove_stale(path)
        listening.bind(str(path))
        listening.listen()
    except OSError as error:
        listening.close()
        reason = error.strerror or str(error)
        raise OperationError(f"cannot listen at {path}: {reason}; choose another path") from None
    finally:
        os.umask(usual)
    return listening


def _remove_stale(path: Path) -> None:
    """Remove a socket at which no process listens any more."""
    with suppress(FileNotFoundError):
        if not stat.S_ISSOCK(os.lstat(path).st_mode):
            return  # bind() will report it.
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(path)) == errno.ECONNREFUSED:
                path.unlink()
