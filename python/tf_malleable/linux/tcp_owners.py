# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""TCP owners: the users at the ends of connections within this host, from proc(5)'s net/tcp.

The kernel shows user 0 for an end that no process has any more. Such an end has no owner here, or
whoever sends a request and closes at once would pass for root.
"""

from __future__ import annotations

import socket
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
# An address of IPv4 in the table of IPv6: ::ffff:127.0.0.1.
_MAPPED: Final = "0000000000000000FFFF0000"
_ESTABLISHED: Final = "01"
_LISTENING: Final = "0A"

Address = tuple[str, int]


def owner_of(end: Address, other: Address = ("0.0.0.0", 0)) -> int | None:
    """Return the uid of the user at one end of a connection; None if no process has it.

    Args:
        end: IPv4 address and port of this end.
        other: Address and port of the other end; by default, `end` is an address to listen at.
    """
    state = _ESTABLISHED if other[1] else _LISTENING
    ends, others = _names(end), _names(other)
    for table in _TABLES:
        with suppress(FileNotFoundError):  # A kernel without IPv6.
            for line in table.read_text().splitlines()[1:]:
                fields = line.split()
                if fields[1] in ends and fields[2] in others and fields[3] == state:
                    uid, inode = int(fields[7]), int(fields[9])
                    return uid if inode else None
    return None


def _names(address: Address) -> tuple[str, str]:
    number = int.from_bytes(socket.inet_aton(address[0]), sys.byteorder)
    name = f"{number:08X}:{address[1]:04X}"
    return name, _MAPPED + name
