# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Server of a member's state, its description, and its last sum, for other processes.

The rules that keep the state correct are in training_member.py.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress

from tf_malleable.elastic.member.coordinator_client import Message
from tf_malleable.elastic.member.held_state import HeldState
from tf_malleable.elastic.member.process import LOOK_SECONDS, MeshProcess
from tf_malleable.elastic.member.state_client import ANSWER_SECONDS
from tf_malleable.elastic.mesh import StateHolder
from tf_malleable.elastic.state import state_messages


class StateServer:
    """Gives the state to newcomers while it stands still.

    The caller of all methods but answer() holds the condition of the process.
    """

    def __init__(self, process: MeshProcess, state: HeldState, holder: StateHolder) -> None:
        """Create the server; nothing is given before the first begin_step().

        Args:
            process: This process.
            state: Which state it is.
            holder: Holder of the state itself.
        """
        self._process, self._state, self._holder = process, state, holder
        self._changed = process.changed
        self._is_still = False
        self._readers: set[socket.socket] = set()
        # Set when the transfers that have begun are no longer wanted.
        self._cancelled = threading.Event()
        self._is_asked = False
        self._description: tuple[int, bytes] = (0, b"")

    def begin_step(self, *, must_end: bool, is_only: bool) -> None:
        """Note that the state stands still, and describe it if others have asked for that.

        Args:
            must_end: True if this process takes part in no more steps.
            is_only: True if no other process takes part in the step.
        """
        self._is_still = not (must_end or is_only)
        if self._is_asked and not must_end:
            self._is_asked = False
            self._description = self._description[0] + 1, self._holder.describe()

    def end_step(self) -> None:
        """Let no more processes read the state, which is about to change."""
        self._is_still = False

    def wait_for_readers(self) -> None:
        """Wait until nobody reads the state."""
        while self._readers:
            self._changed.wait()

    def cancel(self) -> None:
        """Disconnect all readers, of which some may have stalled."""
        self._cancelled.set()
        self._cancelled = threading.Event()
        for each in self._readers:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def answer(self, connection: socket.socket, message: Message) -> None:
        """Answer the request of another process, in a thread of its own."""
        with connection, suppress(OSError, KeyError, TypeError, ValueError):
            if message["to"] != self._process.id:
                return
            if message["kind"] == "state":
                self._give_state(connection, int(message["number"]))
            elif message["kind"] == "describe":
                self._give_description(connection)
            elif message["kind"] == "sum":
                self._give_sum(connection, int(message["step"]))

    def _give_sum(self, connection: socket.socket, step: int) -> None:
        with self._changed:
            vector = self._state.sum_of(step)
        if vector is not None:
            state_messages.send_vector(connection, step, vector)

    def _give_description(self, connection: socket.socket) -> None:
        with self._changed:
            self._is_asked, known = True, self._description[0]
            self._changed.wait_for(
                lambda: self._description[0] != known or self._process.ending.is_near,
                ANSWER_SECONDS,
            )
            number, said = self._description
            step, lineage = self._state.step, self._state.lineage
        if number != known:
            state_messages.send_state(connection, step, lineage, said, (), lambda: True)

    def _give_state(self, connection: socket.socket, number: int) -> None:
        with self._changed:
            while not self._stands_still(number):
                if self._process.current.number > number or self._process.ending.is_near:
                    return
                self._changed.wait(LOOK_SECONDS)
            self._readers.add(connection)
            cancelled, step, lineage = self._cancelled, self._state.step, self._state.lineage
        try:
            description, buffers = self._holder.describe(), self._holder.buffers()
            try:
                state_messages.send_state(
                    connection, step, lineage, description, buffers, lambda: not cancelled.is_set()
                )
            finally:
                del buffers
                self._holder.release()
        finally:
            with self._changed:
                self._readers.discard(connection)
                self._changed.notify_all()

    def _stands_still(self, number: int) -> bool:
        """Return whether the state can be read for the first step of a generation."""
        current = self._process.current
        is_first = current.allreduce is not None and current.allreduce.is_first
        is_this = current.number == number and is_first
        return is_this and self._is_still and not self._process.is_halted
