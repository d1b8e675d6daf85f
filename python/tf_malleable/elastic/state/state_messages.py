# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Messages that carry a training's state and its last sum between members.

A checkpoint is a state on its way to a later process; see checkpoint.py. An incomplete state does
not exist: the receiver collects all of it before anything is loaded.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from tf_malleable.elastic.links import messages

if TYPE_CHECKING:
    import numpy as np

    Vector = np.ndarray[Any, Any]

# Number of bytes sent or received at a time, before the next check whether to continue.
_PIECE: Final = 1 << 22
# After this long without a byte, the other side is given up.
_PATIENCE_SECONDS: Final = 5.0
_MOST_BUFFERS: Final = 1 << 20
# More than any machine has. Asked for much more, an allocator may fail in its own arithmetic.
_MOST_BYTES: Final = 1 << 46


def pieces(description: bytes, buffers: Sequence[memoryview]) -> Iterator[memoryview]:
    """Yield the bytes of a state in order: sizes, description, buffers."""
    flat = [each.cast("B") if each.nbytes else memoryview(b"") for each in buffers]
    sizes = struct.pack(f"!{len(flat)}Q", *(len(each) for each in flat))
    for each in (memoryview(sizes), memoryview(description), *flat):
        for start in range(0, len(each), _PIECE):
            yield each[start : start + _PIECE]


def from_pieces(
    description: int, buffers: int, fill: Callable[[memoryview], None], most: int = _MOST_BYTES
) -> tuple[bytes, list[memoryview]]:
    """Return the description and the buffers of a state.

    Args:
        description: Length of the description, in bytes.
        buffers: Number of buffers.
        fill: Fills a buffer with the next bytes.
        most: Maximum number of bytes.

    Raises:
        ValueError: The numbers are too large or negative.
    """
    import numpy as np

    if not 0 <= buffers <= _MOST_BUFFERS:
        raise ValueError(f"a state does not have {buffers} buffers")
    head = bytearray(8 * buffers)
    fill(memoryview(head))
    sizes = description, *struct.unpack(f"!{buffers}Q", head)
    if description < 0 or sum(sizes) > most:
        raise ValueError(f"there are not {sum(sizes)} bytes")
    found = []
    for size in sizes:
        try:
            place = np.empty(size, np.uint8).data if size else memoryview(bytearray())
        except MemoryError:
            raise ValueError(f"there is no memory for {size} bytes") from None
        for start in range(0, size, _PIECE):
            fill(place[start : start + _PIECE])
        found.append(place)
    return bytes(found[0]), found[1:]


def send_state(
    connection: socket.socket,
    step: int,
    lineage: str,
    description: bytes,
    buffers: Sequence[memoryview],
    goes_on: Callable[[], bool],
) -> None:
    """Send a state.

    Args:
        connection: Connection to the receiver.
        step: Step that follows the state.
        lineage: Lineage of the training.
        description: The training's description of the state.
        buffers: Bytes of the state.
        goes_on: Called repeatedly; False ends the transfer.

    Raises:
        OSError: The other side is gone, or the state is no longer wanted.
    """
    said = {"step": step, "lineage": lineage}
    said |= {"description": len(description), "buffers": len(buffers)}
    messages.send(connection, said, _soon())
    for each in pieces(description, buffers):
        if not goes_on():
            raise ConnectionAbortedError("the state is no longer wanted")
        messages.send_all(connection, each, _soon())


def receive_state(
    connection: socket.socket, header: messages.Message, goes_on: Callable[[], bool]
) -> tuple[bytes, list[memoryview]]:
    """Return a whole state: its description and its buffers.

    Args:
        connection: Connection to the sender.
        header: Message with which the state begins.
        goes_on: As in send_state().

    Raises:
        OSError, EOFError, ValueError: The state breaks off, is no longer wanted, or is malformed.
    """

    def fill(place: memoryview) -> None:
        if not goes_on():
            raise ConnectionAbortedError("the state is no longer wanted")
        messages.receive_into(connection, place, _soon())

    try:
        description, buffers = int(header["description"]), int(header["buffers"])
    except (KeyError, TypeError):
        raise ValueError("it sent no state") from None
    return from_pieces(description, buffers, fill)


def send_vector(connection: socket.socket, step: int, vector: Vector) -> None:
    """Send the sum of a step.

    Raises:
        OSError: The other side is gone.
    """
    said = {"step": step, "words": len(vector), "type": vector.dtype.name}
    messages.send(connection, said, _soon())
    data = vector.data.cast("B")
    for start in range(0, len(data), _PIECE):
        messages.send_all(connection, data[start : start + _PIECE], _soon())


def receive_vector(
    connection: socket.socket, step: int, room: Callable[[int, str], Vector]
) -> Vector:
    """Return the sum of a step.

    Raises:
        OSError, EOFError: The sum breaks off, or there is none of this step.
    """
    header = messages.receive(connection, _soon())
    if header.get("step") != step:
        raise ConnectionAbortedError("there is no sum of this step")
    try:
        vector = room(int(header["words"]), str(header["type"]))
    except (KeyError, MemoryError, TypeError, ValueError):
        raise ConnectionAbortedError("it sent a malformed sum") from None
    data = vector.data.cast("B")
    for start in range(0, len(data), _PIECE):
        messages.receive_into(connection, data[start : start + _PIECE], _soon())
    return vector


def _soon() -> float:
    return time.monotonic() + _PATIENCE_SECONDS
