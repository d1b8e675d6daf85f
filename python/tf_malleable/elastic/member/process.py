# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Process of a training, member or server: what it and the coordinator tell each other.

One condition guards all state. The threads of the coordinator's client and of the listener change
the state and wake the threads that wait.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from tf_malleable.elastic.allreduce.allreduce import Allreduce
from tf_malleable.elastic.allreduce.allreduce_step import Summed
from tf_malleable.elastic.allreduce.reduction_tree import Node
from tf_malleable.elastic.exit_requests import Ending, Restart
from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.links.errors import COME_AGAIN, AbortedError, LinkError
from tf_malleable.elastic.links.frames import Link
from tf_malleable.elastic.links.listener import Listener
from tf_malleable.elastic.member.coordinator_client import (
    ClientHandlers,
    CoordinatorClient,
    Message,
)
from tf_malleable.elastic.member.cpus import OwnCpus
from tf_malleable.elastic.member.current_generation import CurrentGeneration
from tf_malleable.elastic.member.rendezvous import Rendezvous
from tf_malleable.elastic.membership.recovery_point import Position
from tf_malleable.elastic.membership.rescale_ledger import Ledger, Rescale
from tf_malleable.elastic.settings import MeshSettings

if TYPE_CHECKING:
    from tf_malleable.elastic.allreduce.allreduce_step import BufferAllocator, Vector

# How often a thread that waits for a change of the state looks again by itself.
LOOK_SECONDS: Final = 0.2


def _nothing(*_: object) -> None:
    """Do nothing."""


@dataclass(frozen=True)
class RoleHandlers:
    """What members and servers do differently.

    All are called while the process's condition is held, except `beat`, `answer` and `absent`.

    Attributes:
        halted: Abandons all transfers, as the current generation is over.
        position: Returns the position of this process.
        is_ready: Returns whether this process can compute.
        beat: Returns what a heartbeat says besides the generation and whether this process leaves.
        heard: Gets each message of the coordinator after the process has handled it.
        restarted: Gets where to continue, once the generation after a loss is entered.
        answer: Serves a connection of another process that is not a link, and closes it.
        absent: Gets the seconds without a coordinator, repeatedly while there is none.
    """

    halted: Callable[[], None]
    position: Callable[[], Position] = lambda: Position("", 0, has_sum=False)
    is_ready: Callable[[], bool] = lambda: True
    beat: Callable[[], Message] = lambda: {"step": 0, "speed": None, "stalled": ()}
    heard: Callable[[Message], None] = _nothing
    restarted: Callable[[Restart], None] = _nothing
    answer: Callable[[socket.socket, Message], None] = lambda connection, _: connection.close()
    absent: Callable[[float], None] = _nothing


class MeshProcess:
    """A process of a training.

    Attributes:
        id: Unique id among all processes of the training.
        settings: How to reach the coordinator and this process.
        changed: Condition that guards all state, and is notified of every change.
        current: Current generation and its allreduce.
        rendezvous: Generations that are being prepared.
        highest: Greatest number of a generation that this process knows of.
        proposed: Number of the next generation for which all are prepared; 0 if there is none.
        is_halted: True if this process has to wait until it is told where to continue.
        ending: Reasons to end, if there are any.
        ledger: Rescales that this process knows of.
        cpus: Number of CPUs of this process.
    """

    def __init__(self, settings: MeshSettings, role: str) -> None:
        """Create the process; start() connects it.

        Args:
            settings: How to reach the coordinator and this process.
            role: ``"worker"`` or ``"server"``.
        """
        if settings.coordinator is None:
            raise ValueError("a process that trains alone has no others")
        self.id = settings.id or secrets.token_hex(6)
        self.settings = settings
        self.changed = threading.Condition()
        self.ending, self.ledger = Ending(), Ledger()
        self.cpus = OwnCpus(settings.cpus)
        self._role = role
        self.highest = self.proposed = 0
        self.is_halted = self._is_leaving = self._is_finished = False
        self._control = CoordinatorClient(
            settings.coordinator,
            settings.secret,
            self.changed,
            ClientHandlers(self._hello, self.beat, self._heard, self._absent),
            self.say,
        )
        self.current = CurrentGeneration(self.id)
        self.rendezvous = Rendezvous(self.id, settings.secret, self.changed, self.send)

    def start(self, handlers: RoleHandlers) -> None:
        """Listen and connect to the coordinator.

        Raises:
            MeshError: There is no coordinator, or it refuses this process.
            OSError: This process cannot listen.
        """
        self._handlers, settings = handlers, self.settings
        self._listener = Listener(
            settings.host, settings.port, settings.secret, self._serve, self.say
        )
        try:
            self._control.start(time.monotonic() + settings.patience_seconds)
        except BaseException:
            self._listener.close()
            raise

    @property
    def shards(self) -> int:
        """Number of shards of each batch."""
        return self._control.shards

    @property
    def is_free_to_leave(self) -> bool:
        """Whether this process is to leave, and no generation that is being prepared has it."""
        return self._is_leaving and self.rendezvous.is_empty

    def say(self, sentence: str) -> None:
        """Print a sentence for the user."""
        with suppress(OSError):
            os.write(2, f"tfm elastic: {sentence}\n".encode())

    def leave(self) -> None:
        """Hand over and leave, as soon as that is possible.

        A signal handler may call this: it takes no lock that its thread may hold.
        """
        self._is_leaving = True
        self._control.hurry()

    def close(self) -> None:
        """Close all connections."""
        self._control.send("departed")
        self._control.stop()
        self._listener.close()
        with self.changed:
            self.current.retire()
            self.rendezvous.close()
            self.current.close_retired()

    # Messages to the coordinator.

    def send(self, kind: str, **more: object) -> None:
        """Send a message; without a connection, the next hello has all of it."""
        self._control.send(kind, **more)

    def finish(self) -> None:
        """Report the end of this process's training, with its final progress."""
        self._is_finished = True
        self.send("beat", **self.beat())
        self.send("finished")

    def beat(self) -> Message:
        """Return the contents of a heartbeat."""
        own = {"number": self.current.number, "leaving": self._is_leaving}
        return {**self._handlers.beat(), **own}

    def _hello(self) -> Message:
        with self.changed:
            generation = self.current.generation
            return {
                "id": self.id,
                "role": self._role,
                "address": vars(self.settings.reached_at or self._listener.address),
                "cpus": self.cpus.now(),
                "place": self.settings.place or f"{socket.gethostname()}:{os.getpid()}",
                "ready": self._handlers.is_ready(),
                "leaving": self._is_leaving,
                "finished": self._is_finished,
                "halted": self.is_halted,
                "generation": None if generation is None else generation.as_json(),
                "position": asdict(self._handlers.position()),
                "highest": self.highest,
                "rescales": [each.as_json() for each in self.ledger],
            }

    # Messages of the coordinator, in the thread of its client.

    def _heard(self, message: Message) -> None:
        with self.changed:
            self._handle(message)
            self._handlers.heard(message)
            self.changed.notify_all()

    def _handle(self, message: Message) -> None:
        kind = message["kind"]
        if kind == "prepare":
            generation = Generation.from_json(message["generation"])
            self.highest = max(self.highest, generation.number)
            self.rendezvous.prepare(generation)
        elif kind == "go":
            self.proposed = int(message["number"])
        elif kind == "cancel":
            self.rendezvous.drop(int(message["number"]))
        elif kind == "halt":
            self._halt(int(message["number"]))
        elif kind == "restart":
            self._restart(message)
        elif kind == "rescaled":
            self.ledger.learn(Rescale.from_json(message["rescale"]))
        elif kind == "finished":
            self.ending.finished = True
            self.current.retire()
        elif kind == "dismissed":
            self.ending.leaving = self.ending.last = True
        elif kind == "expelled":
            self.expel(str(message["reason"]), int(message["exit_code"]))

    def _halt(self, number: int) -> None:
        self.highest = max(self.highest, number)
        self._handlers.halted()
        self.current.retire()
        self.rendezvous.drop(number)
        self.proposed = 0
        self.is_halted = self.current.generation is not None
        self.send("halted", number=number, position=asdict(self._handlers.position()))

    def _restart(self, message: Message) -> None:
        number = int(message["number"])
        if not self.rendezvous.is_prepared(number):
            return  # Another halt has come since.
        self.begin(*self.rendezvous.take(number))
        lineage, step = str(message["lineage"]), int(message["step"])
        self._handlers.restarted(Restart(lineage, step, message["giver"]))

    def _absent(self, seconds: float) -> None:
        """Note the time without a coordinator; a process that is to leave does not wait long."""
        if self._is_leaving and seconds >= self.settings.leave_seconds:
            with self.changed:
                self.ending.leaving = True
                if seconds >= 2 * self.settings.leave_seconds:
                    self.current.retire()  # The step waits for a peer that hangs.
                self.changed.notify_all()
        self._handlers.absent(seconds)

    # Generations; the caller holds `changed`.

    def expel(self, reason: str, exit_code: int = COME_AGAIN) -> None:
        """End this process as soon as possible."""
        self.ending.leaving = True
        self.ending.reason, self.ending.exit_code = reason, exit_code
        self.current.retire()

    def enter(self, number: int) -> None:
        """Begin a prepared generation, and tell the coordinator; leave if there is none."""
        if self.rendezvous.generation(number) is None:
            self.ending.leaving = True
            return
        generation, links = self.rendezvous.take(number)
        self.begin(generation, links)
        self.send("entered", generation=generation.as_json())

    def begin(self, generation: Generation, links: Mapping[str, Link]) -> None:
        """Make a generation the current one."""
        self.current.begin(generation, links)
        self.highest = max(self.highest, generation.number)
        self.proposed = self.proposed if self.proposed > generation.number else 0
        self.is_halted = False

    def break_off(self, lost: tuple[str, ...]) -> None:
        """Stop computing in the current generation, and report peers as unreachable."""
        self.current.retire()
        self.is_halted = True
        self.send("broken", number=self.current.number, lost=lost)

    # Steps.

    def sum(
        self,
        allreduce: Allreduce,
        step: int | None,
        parts: Mapping[Node, Vector],
        proposed: int,
        room: BufferAllocator,
    ) -> Summed | None:
        """Take part in a step with an allreduce that is in use, and end its use.

        Args:
            allreduce: What current.use() has returned.
            step: Number of the step; None for a server, which learns it from the members.
            parts: This member's partial sums; they must not change meanwhile.
            proposed: Next generation for which all are prepared; 0 if there is none.
            room: Returns a vector of a length and type, for the sum or a server's slice.

        Returns:
            The sum; None if the generation is over, or broken.

        Raises:
            MeshError: Another member runs a different computation.
        """
        problem: LinkError | AbortedError | None = None
        try:
            return allreduce.sum(step, parts, proposed, room)
        except (LinkError, AbortedError) as error:
            problem = error
            return None
        finally:
            with self.changed:
                self.current.unuse()
                if problem is not None and self.current.allreduce is allreduce:
                    lost = problem.lost if isinstance(problem, LinkError) else ()
                    if isinstance(problem.__cause__, ConnectionAbortedError):
                        self.say(f"the link to {lost[0]} broke: {problem.__cause__}")
                    self.break_off(lost)

    def _serve(self, connection: socket.socket, message: Message) -> None:
        """Serve a connection of another process, in a thread of its own."""
        if message.get("kind") == "link":
            self.rendezvous.accept(connection, message)
        else:
            self._handlers.answer(connection, message)
