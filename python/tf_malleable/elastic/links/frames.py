# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Frames of an allreduce on a link, which is a socket that never blocks.

A frame is a header and a payload, which is received directly into its destination. The receiver
asks for one frame after the other, and stops where a step ends: what a faster peer sends for its
next step stays in the kernel until then.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

_HEADER: Final = struct.Struct("<4sBBHHQQQ")
_MAGIC: Final = b"tfm1"

STEP: Final = 1
"""A member begins a step with an owner."""
PART: Final = 2
"""A chunk of a member's contribution to an owner's slice."""
AGREED: Final = 3
"""An owner has received the step of every member."""
RESULT: Final = 4
"""A chunk of an owner's slice of the sum."""


class Frame(NamedTuple):
    """The header of a frame.

    Attributes:
        kind: STEP, PART, AGREED or RESULT.
        type: Type of the vector's words, an index into _TYPES of allreduce_step.py; 0 if unknown.
        start: First shard of a member's run.
        stop: First shard after the run.
        number: Number of the chunk, or of a part of a chunk; in STEP and AGREED, of the step.
        words: Length of the whole vector, 0 if unknown; in PART and RESULT, of the payload in
            bytes.
        generation: Next generation for which all are prepared, as far as the sender knows.
    """

    kind: int
    type: int = 0
    start: int = 0
    stop: int = 0
    number: int = 0
    words: int = 0
    generation: int = 0


class Link:
    """One end of a link between two processes.

    Attributes:
        id: Id of the peer.
        socket: Connection to the peer.
    """

    def __init__(self, id: str, connection: socket.socket) -> None:  # noqa: A002
        """Take over an authenticated connection."""
        self.id, self.socket = id, connection
        connection.setblocking(False)
        self._urgent: deque[tuple[Frame, memoryview | None]] = deque()
        self._bulk: Iterator[tuple[Frame, memoryview]] | None = None
        self._sending: list[memoryview] = []
        self._header = memoryview(bytearray(_HEADER.size))
        self._filled = 0
        self._place: memoryview | None = None
        self._frame: Frame | None = None

    # Sending.

    def put(self, frame: Frame, payload: memoryview | None = None) -> None:
        """Queue a frame ahead of all bulk. The payload must not change until it is sent."""
        self._urgent.append((frame, payload))

    def put_bulk(self, frames: Iterator[tuple[Frame, memoryview]]) -> None:
        """Queue frames in bulk, to be sent when no other frame is queued."""
        self._bulk = frames

    def flush(self) -> None:
        """Send as much as the kernel takes.

        Raises:
            OSError: The peer is gone.
        """
        while True:
            if not self._sending:
                following = self._next()
                if following is None:
                    return
                frame, payload = following
                header = _HEADER.pack(_MAGIC, *frame)
                self._sending = [memoryview(header)]
                if payload is not None:
                    self._sending.append(payload)
            try:
                sent = self.socket.sendmsg(self._sending)
            except BlockingIOError:
                return
            while self._sending and sent >= len(self._sending[0]):
                sent -= len(self._sending.pop(0))
            if self._sending:
                self._sending[0] = self._sending[0][sent:]

    def _next(self) -> tuple[Frame, memoryview | None] | None:
        if self._urgent:
            return self._urgent.popleft()
        following = None if self._bulk is None else next(self._bulk, None)
        if following is None:
            self._bulk = None
        return following

    @property
    def has_more(self) -> bool:
        """Whether frames are queued or partly sent."""
        return bool(self._sending or self._urgent or self._bulk is not None)

    # Receiving.

    def receive(self, place: Callable[[Frame], memoryview | None]) -> Frame | None:
        """Return the next complete frame; None if it has not arrived yet.

        Args:
            place: Returns the buffer for the payload of a frame; None if it has no payload.

        Raises:
            OSError, EOFError: The peer is gone, or has sent a malformed frame.
        """
        if self._frame is None:
            if not self._fill(self._header):
                return None
            magic, *fields = _HEADER.unpack(self._header)
            if magic != _MAGIC:
                raise ConnectionAbortedError("malformed frame")
            self._frame, self._filled = Frame(*fields), 0
            self._place = place(self._frame)
        if self._place is not None and not self._fill(self._place):
            return None
        frame, self._frame, self._place, self._filled = self._frame, None, None, 0
        return frame

    def _fill(self, place: memoryview) -> bool:
        while self._filled < len(place):
            try:
                count = self.socket.recv_into(place[self._filled :])
            except BlockingIOError:
                return False
            if count == 0:
                raise EOFError("the connection was closed")
            self._filled += count
        return True

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()
