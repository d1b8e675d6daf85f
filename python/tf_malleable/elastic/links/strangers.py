# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Connections to a process that have not proven yet that they belong to its training."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Final

_MOST: Final = 64


class Strangers:
    """Connections whose first message has not arrived; at most 64. Thread-safe.

    If there are more, the oldest is shut down rather than the newest refused: a process of the
    training sends its message at once, so whoever holds many connections loses those first.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connections: dict[socket.socket, None] = {}

    def add(self, connection: socket.socket) -> None:
        """Add a connection; wake up the thread that waits at the oldest if there are too many."""
        with self._lock:
            self._connections[connection] = None
            if len(self._connections) > _MOST:
                oldest = next(iter(self._connections))
                del self._connections[oldest]
                with suppress(OSError):  # The other side has hung up.
                    oldest.shutdown(socket.SHUT_RDWR)

    def remove(self, connection: socket.socket) -> None:
        """Remove a connection, if it is still here; before it is closed."""
        with self._lock:
            self._connections.pop(connection, None)
