# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Remote controller: the controller of another host, reached through ssh as with DOCKER_HOST.

``ssh HOST tfm dial-stdio`` connects to the controller there and passes bytes on. So the other
host's tfm finds the controller, which sees the user of that host as the caller.
"""

from __future__ import annotations

import os
import socket
import subprocess
from contextlib import nullcontext
from typing import Final
from urllib.parse import urlsplit

from tf_malleable.api.transport.client import Client
from tf_malleable.api.transport.connection import Connection

HOST: Final = "TF_MALLEABLE_HOST"
# The user may have to type a password.
_TIMEOUT: Final = 60.0


def remote_client() -> Client | None:
    """Return a client of the controller at TF_MALLEABLE_HOST; None if that is not set.

    Raises:
        ValueError: TF_MALLEABLE_HOST does not have the form ssh://[user@]host[:port].
    """
    address = remote_host()
    if address is None:
        return None
    # One connection for all requests, as ssh takes long to connect.
    connection = Connection(address, timeout=_TIMEOUT, dial=lambda: _dial(address))
    return Client(address, connect=lambda: nullcontext(connection))


def remote_host() -> str | None:
    """Return TF_MALLEABLE_HOST; None if it is not set.

    Raises:
        ValueError: TF_MALLEABLE_HOST does not have the form ssh://[user@]host[:port].
    """
    address = os.environ.get(HOST)
    if not address:
        return None
    try:
        parts = urlsplit(address)
        named = (parts.hostname or "", parts.username or "")
        is_good = (
            (parts.scheme, parts.query, parts.fragment, parts.password) == ("ssh", "", "", None)
            and bool(named[0])
            and parts.path in ("", "/")
            and parts.port != 0
            # ssh would interpret such names as options.
            and not any(name.startswith("-") for name in named)
        )
    except ValueError:  # The port is not a number.
        is_good = False
    if not is_good:
        raise ValueError(f"{HOST} must be ssh://[user@]host[:port], not {address!r}")
    return address


def _dial(address: str) -> socket.socket:
    """Return a socket to the controller of another host."""
    ours, theirs = socket.socketpair()
    with theirs:
        try:
            subprocess.Popen(
                ["ssh", "-T", "--", address, "tfm", "dial-stdio"],
                stdin=theirs.fileno(),
                stdout=theirs.fileno(),
            )
        except OSError as error:
            ours.close()
            raise ConnectionError(f"cannot run ssh: {error.strerror}") from None
    return ours
