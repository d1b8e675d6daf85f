# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Setup of the links of a generation that has not begun, while the current one trains on."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Final

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import LinkError, MeshError
from tf_malleable.elastic.links.frames import Link

# Time limit for all links of a generation together.
BUILD_SECONDS: Final = 2.5


def peers(generation: Generation, me: str) -> tuple[str, ...]:
    """Return the peers of a process in the allreduce: members exchange with owners."""
    members, owners = {each.id for each in generation.members}, set(generation.owners)
    found = (owners if me in members else set()) | (members if me in owners else set())
    return tuple(each for each in generation.ids if each in found and each != me)


class Inbox:
    """Links that peers have opened, for generations that may not be known here yet."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._links: dict[tuple[int, str], socket.socket] = {}

    def put(self, number: int, sender: str, connection: socket.socket) -> None:
        """Store a link; close an earlier one of the same generation and sender."""
        with self._changed:
            known = self._links.pop((number, sender), None)
            self._links[number, sender] = connection
            self._changed.notify_all()
        if known is not None:
            known.close()

    def take(self, number: int, sender: str, deadline: float) -> socket.socket | None:
        """Wait for a link, and return it; None if it does not arrive in time."""
        with self._changed:
            while (number, sender) not in self._links:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return self._links.pop((number, sender), None)
            return self._links.pop((number, sender))

    def drop(self, number: int) -> None:
        """Close the links of this generation and of earlier ones."""
        with self._changed:
            for key in [key for key in self._links if key[0] <= number]:
                self._links.pop(key).close()


def build(generation: Generation, me: str, secret: bytes, inbox: Inbox) -> dict[str, Link]:
    """Return links to all peers; of two processes, the later in the generation opens the link.

    Raises:
        LinkError: Some peers cannot be reached in time.
    """
    deadline = time.monotonic() + BUILD_SECONDS
    ids, links, lost = generation.ids, dict[str, Link](), list[str]()
    by_id = {each.id: each for each in generation.processes}
    wanted = peers(generation, me)
    for peer in wanted:
        if ids.index(peer) > ids.index(me):
            continue
        try:
            connection = messages.connect(by_id[peer].address, secret, deadline)
            try:
                said = {"to": peer, "from": me, "number": generation.number}
                messages.send(connection, {"kind": "link", **said}, deadline)
                if messages.receive(connection, deadline).get("kind") != "linked":
                    raise ConnectionRefusedError("another process is there")
            except BaseException:
                connection.close()
                raise
            links[peer] = Link(peer, connection)
        except (OSError, EOFError, MeshError):
            lost.append(peer)
    for peer in wanted:
        if ids.index(peer) > ids.index(me) and not lost:
            found = inbox.take(generation.number, peer, deadline)
            if found is None:
                lost.append(peer)
            else:
                links[peer] = Link(peer, found)
    if lost:
        close(links)
        raise LinkError(lost)
    return links


def close(links: dict[str, Link]) -> None:
    """Close links, and wake the threads that wait at them."""
    for link in links.values():
        with suppress(OSError):
            link.socket.shutdown(socket.SHUT_RDWR)
        link.close()
