# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The process at the other end of a Unix socket, identified by the kernel (SO_PEERCRED)."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_UCRED = struct.Struct("3i")


@dataclass(frozen=True)
class Peer:
    """The process that connected: its pid, user id and group id."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return the process that connected.

    Raises:
        OSError: This is not a connected Unix socket.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return Peer(*_UCRED.unpack(credentials))
