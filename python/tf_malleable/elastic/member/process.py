# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Common part of members and servers: the coordinator, the links, and the current generation.

One condition guards all state. The threads of the coordinator's client and of the listener change
the state and wake the threads that wait. Only the thread that trains, or serves, uses the links
of the current generation, and so it alone closes them once they are retired: a descriptor that is
closed while another thread waits at it could be reused for another connection.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

from tf_malleable.elastic.allreduce.allreduce import Allreduce
from tf_malleable.elastic.exit_requests import Ending, Restart
from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.links import link_setup, messages
from tf_malleable.elastic.links.errors import COME_AGAIN, AbortedError, LinkError
from tf_malleable.elastic.links.frames import Link
from tf_malleable.elastic.links.listener import Listener
from tf_malleable.elastic.member.coordinator_client import CoordinatorClient, Message
from tf_malleable.elastic.member.cpus import OwnCpus
from tf_malleable.elastic.membership.rescale_ledger import Ledger, Rescale
from tf_malleable.elastic.settings import MeshSettings

# A member that waits for this long without a byte from any peer reports the peers it waits for.
STALLED_SECONDS: Final = 1.0


@dataclass
class _Draft:
    """A generation that is being prepared; `links` is set once it is prepared."""

    generation: Generation
    links: dict[str, Link] | None = None


@dataclass
class _Use:
    """The current allreduce, whether it is in use, and those to be closed after that."""

    exchange: Allreduce | None = None
    is_used: bool = False
    retired: list[Allreduce] = field(default_factory=list)


class MeshProcess:
    """A process of a training.

    Attributes:
        id: Unique id among all processes of the training.
        shards: Number of shards of each batch.
        changed: Condition that guards all state, and is notified of every change.
        generation: Current generation; None before the first.
        ending: Reasons to end, if there are any.
        ledger: Rescales that this process knows of.
        cpus: Number of CPUs of this process.
    """

    def __init__(self, settings: MeshSettings, role: str) -> None:
        """Listen and connect to the coordinator.

        Raises:
            MeshError: There is no coordinator, or it refuses this process.
            OSError: This process cannot listen.
        """
        if settings.coordinator is None:
            raise ValueError("a process that trains alone has no others")
        self.id = settings.id or secrets.token_hex(6)
        self.role, self.settings = role, settings
        self.cpus = OwnCpus(settings.cpus)
        self.changed = threading.Condition()
        self.generation: Generation | None = None
        self.ending = Ending()
        self.ledger = Ledger()
        self._drafts: dict[int, _Draft] = {}
        self._inbox = link_setup.Inbox()
        self._highest = self.proposed = 0
        self.halted = self._is_leaving = self._is_finished = False
        self._use = _Use()
        self._listener = Listener(
            settings.host, settings.port, settings.secret, self._serve, self.say
        )
        self._control = CoordinatorClient(
            settings.coordinator,
            settings.secret,
            self.changed,
            hello=self._hello,
            beat=self._beat,
            heard=self._heard,
            absent=self._absent,
            say=self.say,
        )
        try:
            self._control.start(time.monotonic() + settings.patience_seconds)
        except BaseException:
            self._listener.close()
            raise
        self.shards = self._control.shards

    def say(self, sentence: str) -> None:
        """Print a sentence for the user."""
        with suppress(OSError):
            os.write(2, f"tfm elastic: {sentence}\n".encode())

    def close(self) -> None:
        """Close all connections."""
        self._control.send("departed")
        self._control.stop()
        self._listener.close()
        with self.changed:
            self._retire()
            for each in self._drafts.values():
                link_setup.close(each.links or {})
            self._drafts.clear()
            self._close_retired()

    def leave(self) -> None:
        """Hand over and leave, as soon as that is possible.

        A signal handler may call this: it takes no lock that its thread may hold.
        """
        self._is_leaving = True
        self._control.hurry()

    # What members and servers do differently.

    def _position(self) -> dict[str, Any]:
        return {"lineage": "", "step": 0, "has_sum": False}

    def _is_ready(self) -> bool:
        return True

    def _beat(self) -> Message:
        number = 0 if self.generation is None else self.generation.number
        leaving = self._is_leaving
        return {"step": 0, "speed": None, "stalled": (), "number": number, "leaving": leaving}

    def _restarted(self, restart: Restart) -> None:
        """Begin a generation after a loss; the caller holds `changed`."""

    def _halted(self) -> None:
        """Abandon what is being received; the caller holds `changed`."""

    def _answer(self, connection: socket.socket, message: Message) -> None:
        """Serve a connection of another process that is not a link."""
        connection.close()

    def _absent(self, seconds: float) -> None:
        """Note the time without a coordinator; a process that is to leave does not wait long."""
        if self._is_leaving and seconds >= self.settings.leave_seconds:
            with self.changed:
                self.ending.leaving = True
                self.changed.notify_all()

    # Messages of the coordinator, in the thread of its client.

    def _hello(self) -> Message:
        with self.changed:
            return {
                "id": self.id,
                "role": self.role,
                "address": vars(self.settings.reached_at or self._listener.address),
                "cpus": self.cpus.now(),
                "place": self.settings.place or f"{socket.gethostname()}:{os.getpid()}",
                "ready": self._is_ready(),
                "leaving": self._is_leaving,
                "finished": self._is_finished,
                "halted": self.halted,
                "generation": None if self.generation is None else self.generation.as_json(),
                "position": self._position(),
                "highest": self._highest,
                "rescales": [each.as_json() for each in self.ledger],
            }

    def _heard(self, message: Message) -> None:
        kind = message["kind"]
        with self.changed:
            if kind == "prepare":
                self._prepare(Generation.from_json(message["generation"]))
            elif kind == "go":
                self.proposed = int(message["number"])
            elif kind == "cancel":
                self._drop(int(message["number"]))
            elif kind == "halt":
                self._halt(int(message["number"]))
            elif kind == "restart":
                self._restart(message)
            elif kind == "rescaled":
                self.ledger.learn(Rescale.from_json(message["rescale"]))
            elif kind == "finished":
                self.ending.finished = True
                self._retire()
            elif kind == "dismissed":
                self.ending.leaving = self.ending.last = True
            elif kind == "expelled":
                self._send_away(str(message["reason"]), int(message["exit_code"]))
            self.changed.notify_all()

    def _send_away(self, reason: str, exit_code: int = COME_AGAIN) -> None:
        """End this process as soon as possible; the caller holds `changed`."""
        self.ending.leaving = True
        self.ending.reason, self.ending.exit_code = reason, exit_code
        self._retire()

    def _prepare(self, generation: Generation) -> None:
        self._highest = max(self._highest, generation.number)
        known = self._drafts.get(generation.number)
        if known is not None and known.generation == generation:
            if known.links is not None:
                self._control.send("prepared", number=generation.number)
            return
        made = self._drafts[generation.number] = _Draft(generation)
        threading.Thread(target=self._build, args=(made,), daemon=True).start()

    def _build(self, made: _Draft) -> None:
        number = made.generation.number
        try:
            links = link_setup.build(made.generation, self.id, self.settings.secret, self._inbox)
        except LinkError as error:
            self._control.send("unprepared", number=number, lost=error.lost)
            return
        with self.changed:
            if self._drafts.get(number) is not made:
                link_setup.close(links)
                return
            made.links = links
            self.changed.notify_all()
        self._control.send("prepared", number=number)

    def _drop(self, number: int) -> None:
        """Forget this draft and earlier ones."""
        for each in [each for each in self._drafts if each <= number]:
            link_setup.close(self._drafts.pop(each).links or {})
        self._inbox.drop(number)

    def _halt(self, number: int) -> None:
        self._highest = max(self._highest, number)
        self._halted()
        self._retire()
        self._drop(number)
        self.proposed = 0
        self.halted = self.generation is not None
        self._control.send("halted", number=number, position=self._position())

    def _restart(self, message: Message) -> None:
        number = int(message["number"])
        made = self._drafts.get(number)
        if made is None or made.links is None:
            return  # Another halt has come since.
        self.enter(number)
        self.halted = False
        giver = message["giver"]
        self._restarted(Restart(str(message["lineage"]), int(message["step"]), giver))

    # Generations.

    def is_prepared(self, number: int) -> bool:
        """Return whether the links of a generation are built."""
        made = self._drafts.get(number)
        return made is not None and made.links is not None

    def drafted(self, number: int) -> Generation | None:
        """Return a generation that is prepared or being prepared; None if there is none."""
        made = self._drafts.get(number)
        return None if made is None else made.generation

    def enter(self, number: int) -> Generation:
        """Make a prepared generation the current one; the caller holds `changed`."""
        made = self._drafts.pop(number)
        assert made.links is not None
        self.begin_with(made.generation, made.links)
        self._drop(number)
        return made.generation

    def begin_with(self, generation: Generation, links: dict[str, Link]) -> None:
        """Make a generation the current one; the caller holds `changed`."""
        self._retire()
        self.generation = generation
        self._highest = max(self._highest, generation.number)
        self._use.exchange = Allreduce(generation, self.id, links, os.eventfd(0))
        self.proposed = self.proposed if self.proposed > generation.number else 0

    def tell_entered(self) -> None:
        """Tell the coordinator which generation is the current one."""
        assert self.generation is not None
        self._control.send("entered", generation=self.generation.as_json())

    # The allreduce of the current generation.

    def use(self) -> Allreduce | None:
        """Mark the allreduce as in use and return it; None if there is none at the moment."""
        with self.changed:
            self._use.is_used = self._use.exchange is not None
            return self._use.exchange

    def unuse(self, exchange: Allreduce, error: BaseException | None) -> None:
        """Mark the allreduce as no longer in use; `error` is what it has raised, if anything."""
        with self.changed:
            self._use.is_used = False
            if self._use.exchange is exchange and isinstance(error, LinkError | AbortedError):
                lost = error.lost if isinstance(error, LinkError) else ()
                if isinstance(error.__cause__, ConnectionAbortedError):
                    self.say(f"the link to {lost[0]} broke: {error.__cause__}")
                self._retire()
                self.halted = True
                self._control.send("broken", number=exchange.generation.number, lost=lost)
            self._close_retired()

    def _retire(self) -> None:
        exchange, self._use.exchange = self._use.exchange, None
        if exchange is None:
            return
        os.eventfd_write(exchange.aborted, 1)
        for link in exchange.links.values():
            with suppress(OSError):
                link.socket.shutdown(socket.SHUT_RDWR)
        self._use.retired.append(exchange)
        if not self._use.is_used:
            self._close_retired()

    def _close_retired(self) -> None:
        while self._use.retired:
            exchange = self._use.retired.pop()
            for link in exchange.links.values():
                link.close()
            os.close(exchange.aborted)

    # Connections of other processes, each in a thread of its own.

    def _serve(self, connection: socket.socket, message: Message) -> None:
        if message.get("kind") != "link":
            self._answer(connection, message)
            return
        try:
            number, sender = int(message["number"]), str(message["from"])
            if message["to"] != self.id:
                raise ValueError
            messages.send(
                connection, {"kind": "linked"}, time.monotonic() + messages.GREETING_SECONDS
            )
        except (KeyError, TypeError, ValueError, OSError):
            connection.close()
            return
        self._inbox.put(number, sender, connection)
