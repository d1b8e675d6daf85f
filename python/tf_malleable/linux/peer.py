# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Who is at the other end of a Unix socket: what the kernel says, not the caller."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_UCRED = struct.Struct("3i")


@dataclass(frozen=True)
class Peer:
    """The process that connected: its number, user and group."""

    pid: int
    uid: int
    gid: int


def peer_of(connection: socket.socket) -> Peer:
    """Return who connected.

    Raises:
        OSError: It is no connected Unix socket.
    """
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    return Peer(*_UCRED.unpack(credentials))
