# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Local gate: accepts the connections of the daemon's user to a port, and refuses all others.

Any user of this host can connect to 127.0.0.1, and requests are signed with the credentials of
the daemon. So the kernel says whose a connection is before anything of it is read.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from tf_malleable.linux.tcp_owners import Address, owner_of

HOST: Final = "127.0.0.1"
_BACKLOG: Final = 1024
_RETRY_SECONDS: Final = 0.1
# The refusal is lost if the socket is closed before the request has come.
_REFUSED_SECONDS: Final = 1.0
_REFUSAL: Final = b"<Error><Code>AccessDenied</Code><Message>another user's tier</Message></Error>"
_ANSWER: Final = (
    b"HTTP/1.1 403 Forbidden\r\nContent-Type: application/xml\r\nConnection: close\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(_REFUSAL), _REFUSAL)
)


class LocalGate:
    """Listens on a port of 127.0.0.1.

    Attributes:
        address: Address and port.
    """

    def __init__(self, port: int, serve: Callable[[], asyncio.Protocol]) -> None:
        """Listen at a port, or any free one, for connections with the protocols of `serve`."""
        try:
            self._listening = socket.create_server((HOST, port), backlog=_BACKLOG)
        except OSError:
            self._listening = socket.create_server((HOST, 0), backlog=_BACKLOG)
        self._listening.setblocking(False)
        self.address: Address = self._listening.getsockname()
        self._serve = serve
        self._accepting = asyncio.get_running_loop().create_task(self._accept())

    async def close(self) -> None:
        """Stop listening."""
        self._accepting.cancel()
        await asyncio.gather(self._accepting, return_exceptions=True)
        self._listening.close()

    async def _accept(self) -> None:
        loop = asyncio.get_running_loop()
        # One after the other: a flood of connections takes one thread.
        while True:
            try:
                accepted, address = await loop.sock_accept(self._listening)
            except OSError:  # It is gone again, or there are no free descriptors.
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            with suppress(OSError):  # It is gone.
                if await asyncio.to_thread(owner_of, address, self.address) == os.geteuid():
                    await loop.connect_accepted_socket(self._serve, accepted)
                    continue
                accepted.send(_ANSWER)
                accepted.shutdown(socket.SHUT_WR)
            loop.call_later(_REFUSED_SECONDS, accepted.close)
