# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a reader hands over in memory: small files, of which the daemon makes copies.

The work is done by cc/tier/taking.h, without the interpreter's lock.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tf_malleable.api.tier_address import SHIM
from tf_malleable.tier.protocol import Identity, ProtocolError

_HEAD: Final = struct.Struct("<iI128s")
_ALIGNMENT: Final = 8
_RESULTS_BYTES: Final = 1 << 16


class HandedFile(NamedTuple):
    """What became of a small file that was handed over.

    Attributes:
        error: As errno; 0 if there is a copy now.
        path: Of the file in the source.
        identity: Of the same, when it was opened.
    """

    error: int
    path: str
    identity: Identity


class ReaderQueue:
    """The queue of one reader. One thread at a time takes from it."""

    def __init__(self, descriptor: int, store: Path, growing: Path, sources: Iterable[str]) -> None:
        """Map it; the descriptor stays the caller's.

        Args:
            descriptor: Of the queue.
            store: Where the reader's user has copies.
            growing: Where they grow.
            sources: The folders whose files are copied.

        Raises:
            ProtocolError: It is no queue.
            OSError: The library is not installed.
        """
        self._library = _library()
        self._queue: int | None = self._library.tfm_tier_queue_open(descriptor)
        if self._queue is None:
            raise ProtocolError("the descriptor of a queue must be of one")
        self._taken = ctypes.c_uint64(0)
        self._folders = os.fsencode(store), os.fsencode(growing)
        self._sources = b"".join(os.fsencode(each) + b"\0" for each in sources)
        self._results = ctypes.create_string_buffer(_RESULTS_BYTES)

    def take(self) -> list[HandedFile]:
        """Make copies of some of what has been handed over; empty if there is nothing. Blocks.

        Raises:
            ProtocolError: The reader has written what is not allowed.
        """
        if self._queue is None:
            return []
        size = self._library.tfm_tier_queue_take(
            self._queue, ctypes.byref(self._taken), *self._folders, self._sources,
            self._results, _RESULTS_BYTES,
        )  # fmt: skip
        if size < 0:
            raise ProtocolError("what was handed over is no file")
        return _decoded(self._results.raw[:size])

    def rest(self) -> bool:
        """Have the reader say when it hands over the next file; returns whether none is there."""
        return self._queue is None or bool(
            self._library.tfm_tier_queue_rest(self._queue, self._taken)
        )

    def close(self) -> None:
        """Unmap it."""
        if self._queue is not None:
            self._library.tfm_tier_queue_close(self._queue)
            self._queue = None


def _decoded(results: bytes) -> list[HandedFile]:
    found, offset = [], 0
    while offset < len(results):
        error, size, identity = _HEAD.unpack_from(results, offset)
        begin = offset + _HEAD.size
        path = os.fsdecode(results[begin : begin + size])
        found.append(HandedFile(error, path, Identity.decode(identity)))
        offset = -(-(begin + size) // _ALIGNMENT) * _ALIGNMENT
    return found


@cache
def _library() -> ctypes.CDLL:
    """Load the library, which is in front of nothing here: it was not preloaded."""
    library = ctypes.CDLL(str(SHIM))
    pointer, number = ctypes.c_void_p, ctypes.c_int
    library.tfm_tier_queue_open.argtypes = [number]
    library.tfm_tier_queue_open.restype = pointer
    library.tfm_tier_queue_take.argtypes = [
        pointer, ctypes.POINTER(ctypes.c_uint64), ctypes.c_char_p, ctypes.c_char_p,
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_int64,
    ]  # fmt: skip
    library.tfm_tier_queue_take.restype = ctypes.c_int64
    library.tfm_tier_queue_rest.argtypes = [pointer, ctypes.c_uint64]
    library.tfm_tier_queue_rest.restype = number
    library.tfm_tier_queue_close.argtypes = [pointer]
    library.tfm_tier_queue_close.restype = None
    return library
