# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests to a member for its state, a description of it, or its last sum."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from tf_malleable.elastic.generation import Generation, Member
from tf_malleable.elastic.links import messages
from tf_malleable.elastic.links.errors import MeshError
from tf_malleable.elastic.state import state_messages

if TYPE_CHECKING:
    from tf_malleable.elastic.allreduce.allreduce_step import BufferAllocator, Vector

# How long a process that asks for the position of a member waits for it to begin a step.
ANSWER_SECONDS: Final = 5.0
# The state is sent once it stands still, which takes as long as a step.
_LONG_SECONDS: Final = 86400.0
# What goes wrong if a member is gone, no longer has what is asked for, or sends nonsense.
_FAILURES: Final = (OSError, EOFError, MeshError, KeyError, ValueError)


def fetch_description(member: Member, secret: bytes) -> bytes | None:
    """Return a member's description of its state; None if it does not answer soon."""
    try:
        deadline = time.monotonic() + messages.GREETING_SECONDS
        with messages.connect(member.address, secret, deadline) as connection:
            messages.send(connection, {"kind": "describe", "to": member.id}, deadline)
            header = messages.receive(connection, time.monotonic() + ANSWER_SECONDS)
            return state_messages.receive_state(connection, header, lambda: True)[0]
    except _FAILURES:
        return None


def fetch_sum(member: Member, secret: bytes, step: int, room: BufferAllocator) -> Vector | None:
    """Return a member's sum of a step; None if it cannot be had."""
    try:
        deadline = time.monotonic() + messages.GREETING_SECONDS
        with messages.connect(member.address, secret, deadline) as connection:
            messages.send(connection, {"kind": "sum", "to": member.id, "step": step}, deadline)
            return state_messages.receive_vector(connection, step, room)
    except _FAILURES:
        return None


@dataclass(frozen=True)
class ReceivedState:
    """A state that has arrived completely.

    Attributes:
        step: Step that follows the state.
        lineage: Lineage of the training.
        description: The training's description of the state.
        buffers: Bytes of the state.
    """

    step: int
    lineage: str
    description: bytes
    buffers: list[memoryview]


class StateDownload:
    """Download of the state with which a newcomer begins in a generation."""

    def __init__(self, generation: Generation, source: Member) -> None:
        """Create the download; receive() starts it.

        Args:
            generation: The generation.
            source: Member that gives the state.
        """
        self.generation, self.source = generation, source
        self._lock = threading.Lock()
        self._is_cancelled = False
        self._connection: socket.socket | None = None

    @property
    def is_cancelled(self) -> bool:
        """Whether the state is no longer wanted."""
        return self._is_cancelled

    def cancel(self) -> None:
        """Give up the download; any thread may call this, at any time."""
        with self._lock, suppress(OSError):
            self._is_cancelled = True
            if self._connection is not None:
                self._connection.shutdown(socket.SHUT_RDWR)

    def receive(self, secret: bytes) -> ReceivedState | None:
        """Return the state; None if it cannot be had, or is no longer wanted.

        Args:
            secret: Secret of the training.
        """
        try:
            deadline = time.monotonic() + messages.GREETING_SECONDS
            with messages.connect(self.source.address, secret, deadline) as connection:
                return self._receive(connection, deadline)
        except _FAILURES:
            return None
        finally:
            with self._lock:
                self._connection = None

    def _receive(self, connection: socket.socket, deadline: float) -> ReceivedState | None:
        with self._lock:
            self._connection = connection
            if self._is_cancelled:
                return None
        said = {"kind": "state", "to": self.source.id, "number": self.generation.number}
        messages.send(connection, said, deadline)
        header = messages.receive(connection, time.monotonic() + _LONG_SECONDS)
        description, buffers = state_messages.receive_state(
            connection, header, lambda: not self._is_cancelled
        )
        step, lineage = int(header["step"]), str(header["lineage"])
        return ReceivedState(step, lineage, description, buffers)
