# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Peer credentials: the process at the other end of a Unix socket, identified by the kernel.

SO_PEERCRED returns its pid and user. The pid alone could be misused: a process connects, forks
and exits, and its child keeps using the connection while the pid is unused or belongs to
another process. SO_PEERPIDFD (Linux 6.5) tells whether the process that connected still
runs.
"""

from __future__ import annotations

import errno
import os
import select
import socket
import struct

from tf_malleable.linux.processes.procfs import read_stat
from tf_malleable.quick_dataclass import dataclass

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

_UCRED = struct.Struct("3i")
# From asm-generic/socket.h; Python's socket module does not define it.
_SO_PEERPIDFD: Final = 77
_NOT_SUPPORTED: Final = (errno.ENOPROTOOPT, errno.EOPNOTSUPP)
# Errors of different kernels if the process is gone.
_HAS_ENDED: Final = (errno.ESRCH, errno.EINVAL, errno.ENODATA)


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


def peer_runs(connection: socket.socket) -> bool:
    """Return whether the process that connected still runs; False for a zombie.

    Before Linux 6.5, this only checks whether a process with its pid runs.

    Raises:
        OSError: This is not a connected Unix socket, or there are no free descriptors.
    """
    try:
        pidfd = connection.getsockopt(socket.SOL_SOCKET, _SO_PEERPIDFD)
    except OSError as error:
        if error.errno in _HAS_ENDED:
            return False
        if error.errno not in _NOT_SUPPORTED:
            raise
        stat = read_stat(peer_of(connection).pid)
        return stat is not None and stat.state not in "ZX"
    try:
        ended = select.poll()
        ended.register(pidfd, select.POLLIN)
        return not ended.poll(0)
    finally:
        os.close(pidfd)
