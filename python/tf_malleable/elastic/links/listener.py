# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Listener of a process for connections from the other processes of its training."""

from __future__ import annotations

import secrets
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

from tf_malleable.elastic.generation import Address
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.links.strangers import Strangers

_KNOCK_SECONDS: Final = 0.3

Serve = Callable[[socket.socket, dict[str, Any]], None]
"""Receives a connection and its first message, and closes or keeps the connection."""


class Listener:
    """Listening sockets: a TCP port and, for processes of the same machine, a Unix socket."""

    def __init__(
        self, host: str, port: int, secret: bytes, serve: Serve, refused: Callable[[str], None]
    ) -> None:
        """Start listening.

        Args:
            host: Name or address at which others reach this host.
            port: TCP port; 0 for any.
            secret: Secret of the training.
            serve: Called in a thread of its own for each authenticated connection.
            refused: Called with a sentence for each connection that was refused.

        Raises:
            OSError: This process cannot listen there.
        """
        self._secret, self._serve, self._refused = secret, serve, refused
        self._strangers = Strangers()
        tcp = socket.create_server((host, port), backlog=128)
        unix = socket.socket(socket.AF_UNIX)
        path = f"tf_malleable-{secrets.token_hex(8)}"
        unix.bind("\0" + path)
        unix.listen(128)
        self._sockets = (tcp, unix)
        self.address = Address(host, tcp.getsockname()[1], messages.machine_id(), path)
        for each in self._sockets:
            threading.Thread(
                target=self._accept, args=(each,), name="tf_malleable_elastic", daemon=True
            ).start()

    def close(self) -> None:
        """Stop listening."""
        for each in self._sockets:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            try:
                connection, address = listening.accept()
            except OSError:
                return
            self._strangers.add(connection)
            host = address[0] if isinstance(address, tuple) else "this machine"
            threading.Thread(
                target=self._greet,
                args=(connection, host),
                name="tf_malleable_elastic",
                daemon=True,
            ).start()

    def _greet(self, connection: socket.socket, host: str) -> None:
        problem: BaseException | None = None
        try:
            deadline = time.monotonic() + messages.GREETING_SECONDS
            if connection.family == socket.AF_INET:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            messages.accept(connection, self._secret, deadline)
            message = messages.receive(connection, deadline)
        except (OSError, EOFError, MeshError) as error:
            problem = error
        finally:
            self._strangers.remove(connection)
        if problem is not None:
            connection.close()
            if not isinstance(problem, EOFError):  # EOF: only a liveness check.
                self._refused(f"refused a connection from {host}: {problem}")
            return
        self._serve(connection, message)


def is_gone(address: Address) -> bool:
    """Return whether it is certain that no process listens at an address any more."""
    try:
        socket.create_connection((address.host, address.port), _KNOCK_SECONDS).close()
    except ConnectionRefusedError:
        return True
    except OSError:
        pass
    return False
