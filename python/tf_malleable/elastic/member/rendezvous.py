# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rendezvous: the processes of a generation connect to each other before it begins."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import dataclass
from typing import Protocol

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.links import link_setup, messages
from tf_malleable.elastic.links.errors import LinkError
from tf_malleable.elastic.links.frames import Link
from tf_malleable.elastic.member.coordinator_client import Message


class Send(Protocol):
    """Function that sends a message to the coordinator."""

    def __call__(self, kind: str, **more: object) -> None:
        """Send a message of a kind."""


@dataclass
class _Draft:
    """A generation that is being prepared; `links` is set once it is prepared."""

    generation: Generation
    links: dict[str, Link] | None = None


class Rendezvous:
    """Generations that are being prepared, with links to their processes.

    The caller holds the condition of the process, except for accept().
    """

    def __init__(self, me: str, secret: bytes, changed: threading.Condition, send: Send) -> None:
        """Create a rendezvous without generations.

        Args:
            me: Id of this process.
            secret: Secret of the training.
            changed: Condition of this process; it is notified when a generation is prepared.
            send: Sends a message to the coordinator.
        """
        self._me, self._secret = me, secret
        self._changed, self._send = changed, send
        self._drafts: dict[int, _Draft] = {}
        self._inbox = link_setup.Inbox()

    @property
    def is_empty(self) -> bool:
        """Whether no generation is prepared or being prepared."""
        return not self._drafts

    def prepare(self, generation: Generation) -> None:
        """Build the links of a generation in a thread, and report the outcome."""
        known = self._drafts.get(generation.number)
        if known is not None and known.generation == generation:
            if known.links is not None:
                self._send("prepared", number=generation.number)
            return
        made = self._drafts[generation.number] = _Draft(generation)
        threading.Thread(target=self._build, args=(made,), daemon=True).start()

    def is_prepared(self, number: int) -> bool:
        """Return whether the links of a generation are built."""
        made = self._drafts.get(number)
        return made is not None and made.links is not None

    def generation(self, number: int) -> Generation | None:
        """Return a generation that is prepared or being prepared; None if there is none."""
        made = self._drafts.get(number)
        return None if made is None else made.generation

    def take(self, number: int) -> tuple[Generation, dict[str, Link]]:
        """Return a prepared generation and its links; forget it and earlier ones."""
        made = self._drafts.pop(number)
        assert made.links is not None
        self.drop(number)
        return made.generation, made.links

    def drop(self, number: int) -> None:
        """Forget a generation and earlier ones, and close their links."""
        for each in [each for each in self._drafts if each <= number]:
            link_setup.close(self._drafts.pop(each).links or {})
        self._inbox.drop(number)

    def close(self) -> None:
        """Close the links of all generations."""
        for each in self._drafts.values():
            link_setup.close(each.links or {})
        self._drafts.clear()

    def accept(self, connection: socket.socket, message: Message) -> None:
        """Take over a link that a peer has opened, for a generation that may not be known yet."""
        try:
            number, sender = int(message["number"]), str(message["from"])
            if message["to"] != self._me:
                raise ValueError
            deadline = time.monotonic() + messages.GREETING_SECONDS
            messages.send(connection, {"kind": "linked"}, deadline)
        except (KeyError, TypeError, ValueError, OSError):
            connection.close()
            return
        self._inbox.put(number, sender, connection)

    def _build(self, made: _Draft) -> None:
        number = made.generation.number
        try:
            links = link_setup.build(made.generation, self._me, self._secret, self._inbox)
        except LinkError as error:
            self._send("unprepared", number=number, lost=error.lost)
            return
        with self._changed:
            if self._drafts.get(number) is not made:
                link_setup.close(links)
                return
            made.links = links
            self._changed.notify_all()
        self._send("prepared", number=number)
