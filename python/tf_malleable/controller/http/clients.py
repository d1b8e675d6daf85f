# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The clients that are connected: who they are, and how many connections each owner has.

An owner is a user of the host, or a container. None but root and the controller's own user
can use up the connections: at the cap, the owner's own oldest idle one makes room.
Connections on which no request is in progress are closed after a while, also if a request
was begun and never finished.
"""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from tf_malleable.api.refusal import Refusal
from tf_malleable.controller.http.rates import Rates
from tf_malleable.linux.confinement import confinement_of
from tf_malleable.linux.peer import Peer, peer_of, peer_runs

IDLE_SECONDS: Final = 15.0
"""How long a connection may be open without a complete request."""

BODY_SECONDS: Final = 10.0
"""How long the body of a request may take."""

BODIES_OF_AN_OWNER: Final = 64
# Each may mean a new decision about all jobs. An owner may ask for so many a second, and at
# once; more of them wait.
_CHANGES: Final = 20.0
_CHANGES_AT_ONCE: Final = 3
# The part of the loop that an owner's changes may take.
_LOOP_PART: Final = 0.1
# An owner may have this part of all connections, and this part is kept for trusted ones.
_PART: Final = 8

Owner = str

_NETWORK: Final = "network"


def trusted_owners() -> tuple[Owner, ...]:
    """Return root, the controller's own user, and the clients of a TCP port as one owner."""
    return _user(0), _user(os.getuid()), _NETWORK


def _user(uid: int) -> Owner:
    return f"user {uid}"


class Connected(Protocol):
    """A connection that can be closed."""

    def hang_up(self) -> None:
        """Close it at once."""


class Clients:
    """The open connections by owner. Not thread-safe: one asyncio loop."""

    def __init__(self, most: int, trusted: Collection[Owner] = ()) -> None:
        """Create an empty table.

        Args:
            most: Maximum number of connections.
            trusted: Owners that may have all of them.
        """
        self._most = most
        self._trusted = trusted
        self._owners: dict[Connected, Owner] = {}
        # Those without a request in progress, and since when; the longest first.
        self._idle: defaultdict[Owner, dict[Connected, float]] = defaultdict(dict)
        self._counts: defaultdict[Owner, int] = defaultdict(int)
        self._bodies: defaultdict[Owner, int] = defaultdict(int)
        self._changes = Rates(_CHANGES, _CHANGES_AT_ONCE)

    def admit(self, client: Connected, owner: Owner, now: float) -> bool:
        """Add a connection; return whether there is room for it.

        Args:
            client: The connection.
            owner: Who has it.
            now: The time, in seconds on any clock.
        """
        part = max(1, self._most // _PART)
        trusted = owner in self._trusted
        crowded = len(self._owners) >= (self._most if trusted else self._most - part)
        if crowded or (not trusted and self._counts[owner] >= part):
            oldest = next(iter(self._idle[owner]), None)
            if oldest is None:
                self._forget_if_empty(owner)
                return False
            self.gone(oldest)
            oldest.hang_up()
        self._owners[client] = owner
        self._counts[owner] += 1
        self._idle[owner][client] = now
        return True

    def gone(self, client: Connected) -> None:
        """Remove a connection; one that was never admitted is ignored."""
        owner = self._owners.pop(client, None)
        if owner is not None:
            self._counts[owner] -= 1
            self._idle[owner].pop(client, None)
            self._forget_if_empty(owner)

    def _forget_if_empty(self, owner: Owner) -> None:
        if not self._counts[owner]:
            del self._counts[owner]
            self._idle.pop(owner, None)

    def begin(self, client: Connected) -> None:
        """Note that a request is in progress on a connection."""
        owner = self._owners.get(client)
        if owner is not None:
            self._idle[owner].pop(client, None)

    def end(self, client: Connected, now: float) -> None:
        """Note that the request has been handled."""
        owner = self._owners.get(client)
        if owner is not None:
            self._idle[owner][client] = now

    def delay(self, client: Connected, now: float) -> float:
        """Count a change that a client asks for; return for how many seconds it has to wait."""
        owner = self._owners.get(client)
        return 0.0 if owner is None or owner in self._trusted else self._changes.delay(owner, now)

    def charge(self, client: Connected, seconds: float) -> None:
        """Note for how long everybody has waited for a change that a client has asked for."""
        owner = self._owners.get(client)
        if owner is not None and owner not in self._trusted:
            self._changes.charge(owner, seconds / _LOOP_PART)

    def sweep(self, now: float) -> None:
        """Close the connections that have been idle for too long, and forget who is calm."""
        self._changes.forget(now)
        before = now - IDLE_SECONDS
        for idle in tuple(self._idle.values()):
            for client, since in tuple(idle.items()):
                if since >= before:
                    break
                self.gone(client)
                client.hang_up()

    @contextmanager
    def reading_body(self, client: Connected) -> Iterator[None]:
        """Be in this context while a body is read, of which each owner may have a few.

        Raises:
            Refusal: 503; the owner has too many unfinished ones.
        """
        owner = self._owners.get(client, "")
        if self._bodies[owner] >= BODIES_OF_AN_OWNER:
            raise Refusal(503, "the caller has too many unfinished requests")
        self._bodies[owner] += 1
        try:
            yield
        finally:
            self._bodies[owner] -= 1
            if not self._bodies[owner]:
                del self._bodies[owner]


def owner_of(connection: socket.socket | None) -> Owner | None:
    """Return who has connected; None if the kernel can no longer tell."""
    if connection is None:
        return None
    if connection.family != socket.AF_UNIX:
        return _NETWORK
    try:
        peer = peer_of(connection)
        confinement = confinement_of(peer.pid)
        # Asked last: a process that has ended would seem to be in no container.
        runs = peer_runs(connection)
    except OSError:
        return None
    if not runs:
        return None
    if confinement is None:
        return f"confined {_user(peer.uid)}"
    if confinement.container:
        return f"container {confinement.container}"
    return f"confined {_user(peer.uid)}" if confinement.namespace else _user(peer.uid)


def caller_of(connection: socket.socket | None) -> Peer:
    """Return the process that sends a request.

    Raises:
        Refusal: 403; it has ended. Whoever has the connection now is somebody else.
        ConnectionResetError: The client has disconnected.
    """
    if connection is None:
        raise ConnectionResetError("the client has disconnected")
    if not peer_runs(connection):
        raise Refusal(403, "the process that connected has ended: connect again")
    return peer_of(connection)
