# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm dial-stdio: connects stdin and stdout to the controller, for tfm on other hosts."""

from __future__ import annotations

import os
import select
import socket
from contextlib import suppress
from pathlib import Path

import click

from tf_malleable.api.transport.address import NoAnswerError, default_socket
from tf_malleable.api.transport.connection import check_server

_PIECE = 1 << 16


@click.command("dial-stdio", hidden=True)
@click.option("--socket", "path", type=click.Path(path_type=Path), metavar="PATH")
def dial_stdio(path: Path | None) -> None:
    """Pass stdin on to the controller of this host, and its answers to stdout."""
    path = path or default_socket()
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(str(path))
            check_server(connection)
        except OSError as error:
            raise NoAnswerError(path, error) from None
        with suppress(ConnectionError):
            _pass_on(connection)


def _pass_on(connection: socket.socket) -> None:
    """Copy both ways until the controller hangs up or stdin ends."""
    sources: list[int | socket.socket] = [0, connection]
    while True:
        ready, _, _ = select.select(sources, [], [])
        if connection in ready:
            data = connection.recv(_PIECE)
            if not data:
                return
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
        if 0 in ready:
            data = os.read(0, _PIECE)
            if not data:
                return
            connection.sendall(data)
