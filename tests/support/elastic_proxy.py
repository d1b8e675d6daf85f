# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A TCP proxy between two processes that can be cut."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class Proxy:
    """Passes on what it gets, until it is told to do otherwise.

    Attributes:
        port: Where it listens.
        target: The port that it passes on to.
        connections: The pairs of sockets that there have been.
    """

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.target = 0
        self.connections: list[tuple[socket.socket, socket.socket]] = []
        self._is_closed = self._swallows = False
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Proxy:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self._listener.close()

    def hang_up(self) -> None:
        """Close all connections; new ones are passed on."""
        for pair in tuple(self.connections):  # Who is cut off comes back meanwhile.
            for each in pair:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close all connections, those to come, too."""
        self._is_closed = True
        self.hang_up()

    def swallow(self) -> None:
        """Let all connections stand, those to come, too, but pass nothing on."""
        self._swallows = True

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            if self._is_closed:
                near.close()
                continue
            far = socket.create_connection(("127.0.0.1", self.target))
            self.connections.append((near, far))
            for pair in ((near, far), (far, near)):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, to: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if not self._swallows:
                    to.sendall(data)
        if not self._swallows:
            with suppress(OSError):
                to.shutdown(socket.SHUT_RDWR)
