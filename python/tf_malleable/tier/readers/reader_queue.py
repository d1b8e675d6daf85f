# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader queue: small files that a reader hands over in shared memory.

cc/tier/handoff_server.h makes the copies, without the GIL.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

from tf_malleable.api.transport.tier_address import SHIM
from tf_malleable.tier.protocol import Identity, ProtocolError

_HEAD: Final = struct.Struct("<iI128s")
_ALIGNMENT: Final = 8
_RESULTS_BYTES: Final = 1 << 16


class HandedFile(NamedTuple):
    """Result for a small file that was handed over.

    Attributes:
        error: Error as errno; 0 if the copy exists now.
        path: Path of the file in the source.
        identity: Identity of the file when it was opened.
    """

    error: int
    path: str
    identity: Identity


class ReaderQueue:
    """The queue of one reader. One thread at a time takes from it."""

    def __init__(self, descriptor: int, store: Path, growing: Path, sources: Iterable[str]) -> None:
        """Map a queue into memory.

        Args:
            descriptor: Descriptor of the queue; the caller keeps and closes it.
            store: Folder of the complete copies of the reader's user.
            growing: Folder of the partial copies of the reader's user.
            sources: Folders whose files are copied.

        Raises:
            ProtocolError: The descriptor is not that of a queue.
            OSError: The shim library is not installed.
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
        """Make copies of some of the files in the queue; empty if there are none. Blocks.

        Raises:
            ProtocolError: The reader has written malformed data.
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
        """Have the reader report its next file; return whether the queue is empty now."""
        return self._queue is None or bool(
            self._library.tfm_tier_queue_rest(self._queue, self._taken)
        )

    def close(self) -> None:
        """Unmap the queue."""
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
    """Load the shim library; it is not preloaded here, so it intercepts no calls."""
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
