# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Transfer of a training's state and last sum from one process to others.

The rules that keep the state correct are in training_member.py.
"""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.member.coordinator_client import Message
from tf_malleable.elastic.member.pace import Pace
from tf_malleable.elastic.member.process import MeshProcess
from tf_malleable.elastic.mesh import StateHolder
from tf_malleable.elastic.settings import MeshSettings
from tf_malleable.elastic.state import state_messages

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]

LOOK_SECONDS: Final = 0.2
# How long a process that asks for the position of this member waits for it to begin a step.
ANSWER_SECONDS: Final = 5.0


class StateTransfer(MeshProcess):
    """A process that holds the state, once it has received or begun one, and the last sum."""

    def __init__(self, settings: MeshSettings, holder: StateHolder) -> None:
        """Connect to the coordinator; arguments and errors as for TrainingMember."""
        self._holder = holder
        self._step, self._lineage = 0, ""
        self._sum: tuple[int, Vector] | None = None
        self._rooms: list[Vector] = []
        self._window = False
        self._readers = 0
        self._attempt = 0
        self._giver: str | None = None
        self._is_asked = False
        self._description: tuple[int, bytes] = (0, b"")
        self._following = 0
        self._reading: set[socket.socket] = set()
        self._pace = Pace()
        super().__init__(settings, "worker")

    # The state, and the sum that leads to it.

    def _position(self) -> dict[str, Any]:
        has_sum = self._sum is not None and self._sum[0] == self._step - 1
        return {"lineage": self._lineage, "step": self._step, "has_sum": has_sum}

    def _number(self) -> int:
        return 0 if self.generation is None else self.generation.number

    def _ordinal(self) -> int:
        return 0 if self.generation is None else self.generation.ordinal

    def _room(self, words: int, type_: str) -> Vector:
        """Return a buffer for a sum that does not overwrite the last one."""
        import numpy as np

        kept = None if self._sum is None else self._sum[1]
        for each in self._rooms:
            if each is not kept and (len(each), each.dtype.name) == (words, type_):
                return each
        self._rooms = [each for each in self._rooms if each is kept][-1:]
        self._rooms.append(np.empty(words, type_))
        return self._rooms[-1]

    def _commit(self, step: int, vector: Vector, following: int = 0) -> None:
        """Advance by one step; the caller holds `changed`, and this process is not halted.

        All is noted before another thread gets the lock: a halt may come while readers end.
        """
        # New readers wait from now on; current readers have noted the step before.
        self._window = False
        self._sum, self._step, self._giver = (step, vector), step + 1, None
        self._following = following
        while self._readers:
            self.changed.wait()
        self._tell_pause()

    def _tell_pause(self) -> None:
        """Report the pause of a rescale after its first step; the caller holds `changed`."""
        seconds = self._pace.summed(self._ordinal())
        if seconds is not None:
            self.ledger.paused(self._ordinal(), seconds)  # In case the coordinator dies with it.
            self._control.send("paused", number=self._ordinal(), seconds=seconds)

    def _fetch(self, generation: Generation, giver: str, step: int) -> Vector | None:
        member = generation.member(giver)
        assert member is not None
        try:
            deadline = time.monotonic() + messages.GREETING_SECONDS
            with messages.connect(member.address, self.settings.secret, deadline) as connection:
                messages.send(connection, {"kind": "sum", "to": giver, "step": step}, deadline)
                return state_messages.receive_vector(connection, step, self._room)
        except (OSError, EOFError, MeshError, KeyError, ValueError):
            return None

    # Requests of other processes, each in a thread of its own.

    def _answer(self, connection: socket.socket, message: Message) -> None:
        with connection, suppress(OSError, KeyError, TypeError, ValueError):
            if message["to"] != self.id:
                return
            if message["kind"] == "state":
                self._give_state(connection, int(message["number"]))
            elif message["kind"] == "describe":
                self._give_description(connection)
            elif message["kind"] == "sum":
                with self.changed:
                    known = self._sum
                if known is not None and known[0] == int(message["step"]):
                    state_messages.send_vector(connection, *known)

    def _note_description(self) -> None:
        """Describe the state for the processes that ask; runs in the thread of the training."""
        self._is_asked = False
        self._description = self._description[0] + 1, self._holder.describe()

    def _give_description(self, connection: socket.socket) -> None:
        with self.changed:
            self._is_asked, known = True, self._description[0]
            self.changed.wait_for(
                lambda: self._description[0] != known or self.ending.is_near, ANSWER_SECONDS
            )
            number, said = self._description
            step, lineage = self._step, self._lineage
        if number != known:
            state_messages.send_state(connection, step, lineage, said, (), lambda: True)

    def _give_state(self, connection: socket.socket, number: int) -> None:
        with self.changed:
            while not self._stands_still(number):
                if self._number() > number or self.ending.is_near:
                    return
                self.changed.wait(LOOK_SECONDS)
            self._readers += 1
            self._reading.add(connection)
            attempt, step, lineage = self._attempt, self._step, self._lineage
        try:
            description, buffers = self._holder.describe(), self._holder.buffers()
            try:
                state_messages.send_state(
                    connection,
                    step,
                    lineage,
                    description,
                    buffers,
                    lambda: attempt == self._attempt,
                )
            finally:
                del buffers
                self._holder.release()
        finally:
            with self.changed:
                self._readers -= 1
                self._reading.discard(connection)
                self.changed.notify_all()

    def _stop_giving(self) -> None:
        """Disconnect readers, of which some may have stalled; the caller holds `changed`."""
        for each in self._reading:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _stands_still(self, number: int) -> bool:
        exchange = self._use.exchange
        first = exchange is not None and exchange.is_first
        return self._number() == number and first and self._window and not self.halted
