# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Connected clients, and the limits on connections and requests per owner.

An owner is a user of the host, or a container. Only root and the controller's user can use
up the connections: at a limit, the owner's own oldest idle connection is closed for the new
one. Connections on which no request is in progress are closed after a while, also if a
request was begun and never finished.
"""

from __future__ import annotations

import os
import socket
from collections import defaultdict
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from tf_malleable.api.schema.refusal import Refusal
from tf_malleable.controller.http.pacing import Pacing
from tf_malleable.linux.cgroups.confinement import confinement_of
from tf_malleable.linux.processes.peer_credentials import Peer, peer_of, peer_runs
from tf_malleable.linux.processes.subordinate_uids import account_of

IDLE_SECONDS: Final = 15.0
"""Time for which a connection may be open without a complete request."""

BODY_SECONDS: Final = 10.0
"""Time limit for the body of a request."""

BODIES_OF_AN_OWNER: Final = 64
# One in this many connections: the most that an owner may have, and the reserve for trusted ones.
_PART: Final = 8

Owner = str

_NETWORK: Final = "network"


def trusted_owners() -> tuple[Owner, ...]:
    """Return the trusted owners: root, the controller's user, and all clients of the TCP port."""
    return _user(0), _user(os.getuid()), _NETWORK


def _user(uid: int) -> Owner:
    return f"user {account_of(uid)}"


class Connected(Protocol):
    """A connection that can be closed."""

    def hang_up(self) -> None:
        """Close it at once."""


class Clients:
    """Open connections by owner. Not thread-safe: one asyncio loop.

    Attributes:
        pacing: Turns of the owners' requests.
    """

    def __init__(self, most: int, trusted: Collection[Owner] = ()) -> None:
        """Create an empty table.

        Args:
            most: Maximum number of connections.
            trusted: Owners that may use all of them.
        """
        self._most = most
        self._trusted = trusted
        self._owners: dict[Connected, Owner] = {}
        # Connections without a request in progress, and since when; the longest idle first.
        self._idle: defaultdict[Owner, dict[Connected, float]] = defaultdict(dict)
        self._counts: defaultdict[Owner, int] = defaultdict(int)
        self._bodies: defaultdict[Owner, int] = defaultdict(int)
        self.pacing = Pacing()

    def admit(self, client: Connected, owner: Owner, now: float) -> bool:
        """Add a connection; return whether there is room for it.

        Args:
            client: The connection.
            owner: Owner of the connection.
            now: Time, in seconds on any clock.
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
        """Record that a request is in progress on a connection."""
        owner = self._owners.get(client)
        if owner is not None:
            self._idle[owner].pop(client, None)

    def end(self, client: Connected, now: float) -> None:
        """Record that the request has been handled."""
        owner = self._owners.get(client)
        if owner is not None:
            self._idle[owner][client] = now

    def paced(self, client: Connected) -> Owner | None:
        """Return the owner of a connection for pacing its requests; None if they are not paced.

        Requests of root and of the controller's user are not, but those to a port, which every user
        may send, are.
        """
        owner = self._owners.get(client)
        return None if owner in self._trusted and owner != _NETWORK else owner

    def sweep(self, now: float) -> None:
        """Close connections that have been idle for too long; forget owners without requests."""
        self.pacing.forget(now)
        before = now - IDLE_SECONDS
        for idle in tuple(self._idle.values()):
            for client, since in tuple(idle.items()):
                if since >= before:
                    break
                self.gone(client)
                client.hang_up()

    @contextmanager
    def reading_body(self, client: Connected) -> Iterator[None]:
        """Provide a context for reading a body; the number of contexts per owner is limited.

        Raises:
            Refusal: 503; the owner has too many unfinished bodies.
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
    """Return the owner of a connection; None if the kernel can no longer identify it."""
    if connection is None:
        return None
    if connection.family != socket.AF_UNIX:
        return _NETWORK
    try:
        owner = owner_name(peer_of(connection))
        # Checked last: a process that has ended would appear to be in no container.
        runs = peer_runs(connection)
    except OSError:
        return None
    if not runs:
        return None
    return owner


def owner_name(peer: Peer) -> Owner:
    """Return the owner of what a process connects: its user or, for root, its container.

    Any other user could make cgroups with the names of many containers.
    """
    confinement = confinement_of(peer.pid)
    if confinement is not None and confinement.container and peer.uid == 0:
        return f"container {confinement.container}"
    is_confined = confinement is None or bool(confinement)
    return f"confined {_user(peer.uid)}" if is_confined else _user(peer.uid)


def caller_of(connection: socket.socket | None) -> Peer:
    """Return the process that sends a request.

    Raises:
        Refusal: 403; it has ended, and another process holds the connection now.
        ConnectionResetError: The client has disconnected.
    """
    if connection is None:
        raise ConnectionResetError("the client has disconnected")
    if not peer_runs(connection):
        raise Refusal(403, "the process that connected has ended: connect again")
    return peer_of(connection)
