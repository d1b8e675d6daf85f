# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Acceptor: accepts connections, at a limited rate per user."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import socket
from collections.abc import Callable
from contextlib import suppress

from tf_malleable.controller.http.rates import Rates
from tf_malleable.linux.cgroups.confinement import confinement_of
from tf_malleable.linux.processes.peer_credentials import peer_of
from tf_malleable.linux.processes.subordinate_uids import account_of

_log = logging.getLogger(__name__)

# Connections of one user: rate per second, and burst.
_RATE = 200.0
_BURST = 400
# Length of the kernel's queue of connections that have not been accepted.
_BACKLOG = 256
# After this many connections, the loop serves other events.
_MOST_AT_ONCE = 8
# A flood may take the loop for this many seconds at a time, followed by a pause.
_REFUSING_SECONDS = 0.0005
_PAUSE_SECONDS = 0.002
# Without a free descriptor, as in asyncio.
_EXHAUSTED_SECONDS = 1.0
_EXHAUSTED = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class Acceptor:
    """Accepts connections on a listening socket. Not thread-safe: one asyncio loop."""

    def __init__(
        self, listening: socket.socket, serve: Callable[[], asyncio.Protocol], refusal: bytes
    ) -> None:
        """Start accepting.

        Args:
            listening: Bound socket; closed by stop().
            serve: Returns the protocol of a new connection.
            refusal: Response to clients that connect too often.
        """
        self._loop = asyncio.get_running_loop()
        self._listening = listening
        self._serve = serve
        self._refusal = refusal
        self._rates = Rates(_RATE, _BURST)
        self._opening: set[asyncio.Task[object]] = set()
        self._pausing: asyncio.TimerHandle | None = None
        listening.setblocking(False)
        listening.listen(_BACKLOG)
        self._resume()

    def stop(self) -> None:
        """Stop accepting connections; open ones stay."""
        if self._listening.fileno() < 0:
            return
        self._loop.remove_reader(self._listening)
        if self._pausing is not None:
            self._pausing.cancel()
        self._listening.close()

    def forget_calm(self) -> None:
        """Forget the users that have not connected for a while."""
        self._rates.forget(self._loop.time())

    def _resume(self) -> None:
        self._loop.add_reader(self._listening, self._accept)

    def _pause(self, seconds: float) -> None:
        self._loop.remove_reader(self._listening)
        self._pausing = self._loop.call_later(seconds, self._resume)

    def _accept(self) -> None:
        end = self._loop.time() + _REFUSING_SECONDS
        admitted = 0
        while admitted < _MOST_AT_ONCE:
            try:
                connection, _address = self._listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _EXHAUSTED:
                    raise
                _log.error("cannot accept connections for a second: %s", error.strerror)
                self._pause(_EXHAUSTED_SECONDS)
                return
            connection.setblocking(False)
            if self._admits(connection):
                admitted += 1
                opening = self._loop.connect_accepted_socket(self._serve, connection)
                task = self._loop.create_task(opening)
                self._opening.add(task)
                task.add_done_callback(self._opening.discard)
                continue
            with connection, suppress(OSError):
                connection.send(self._refusal)
            if self._loop.time() > end:
                self._pause(_PAUSE_SECONDS)
                return

    def _admits(self, connection: socket.socket) -> bool:
        """Return whether the user is within the rate; root and the controller's user always are."""
        if connection.family != socket.AF_UNIX:
            return True
        with suppress(OSError):
            peer = peer_of(connection)
            if self._rates.admits(account_of(peer.uid), self._loop.time()):
                return True
            # Root in a container is treated like any other user.
            if peer.uid in (0, os.getuid()):
                confinement = confinement_of(peer.pid)
                return confinement is not None and not confinement
        return False
