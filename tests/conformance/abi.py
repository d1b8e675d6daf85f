# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""cc/capi/tfm.h for Python, without anything of the package tf_malleable."""

from __future__ import annotations

import ctypes
from pathlib import Path

ABI_VERSION = 1
SUCCESS, NO_CHANGE, TIMED_OUT = 0, 1, 2
ERR_RANGE, ERR_NO_POOL, ERR_ARGUMENT = -1, -2, -3
KEEP, UNSET = -1, 0
INTRA_OP, INTER_OP, OTHER = 0, 1, 2


class Threads(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("intra", ctypes.c_int32),
        ("inter", ctypes.c_int32),
        ("intra_set", ctypes.c_int32),
        ("inter_set", ctypes.c_int32),
        ("intra_max", ctypes.c_int32),
        ("inter_max", ctypes.c_int32),
    )


class Pool(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("kind", ctypes.c_int32),
        ("id", ctypes.c_uint64),
        ("name", ctypes.c_char * 64),
        ("capacity", ctypes.c_int32),
        ("limit", ctypes.c_int32),
        ("active", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("queued", ctypes.c_uint64),
        ("tasks", ctypes.c_uint64),
        ("stand_ins", ctypes.c_uint64),
        ("busy_seconds", ctypes.c_double),
    )


class Library:
    """A library that exports the ABI.

    `in_front` is for the overlay, whose functions TensorFlow's libraries are to find
    before their own.
    """

    def __init__(self, path: Path, *, in_front: bool = False) -> None:
        mode = ctypes.RTLD_GLOBAL if in_front else ctypes.RTLD_LOCAL
        self.c = ctypes.CDLL(str(path), mode=mode)
        self.c.tfm_backend.restype = ctypes.c_char_p
        self.c.tfm_tensorflow_version.restype = ctypes.c_char_p
        self.c.tfm_set_threads.argtypes = [ctypes.c_int, ctypes.c_int]
        self.c.tfm_get_threads.argtypes = [ctypes.POINTER(Threads)]
        self.c.tfm_set_pool_threads.argtypes = [ctypes.c_uint64, ctypes.c_int]
        self.c.tfm_get_pools.argtypes = [
            ctypes.POINTER(Pool),
            ctypes.c_int,
            ctypes.POINTER(ctypes.c_int),
        ]
        self.c.tfm_wait_settled.argtypes = [ctypes.c_double]

    def set_threads(self, intra: int, inter: int) -> int:
        return int(self.c.tfm_set_threads(intra, inter))

    def get_threads(self) -> Threads:
        threads = Threads(size=ctypes.sizeof(Threads))
        assert self.c.tfm_get_threads(threads) == SUCCESS
        return threads

    def set_pool_threads(self, pool: int, limit: int) -> int:
        return int(self.c.tfm_set_pool_threads(pool, limit))

    def count_pools(self) -> int:
        count = ctypes.c_int(-1)
        assert self.c.tfm_get_pools(None, 0, count) == SUCCESS
        return count.value

    def get_pools(self, room: int = 1024) -> list[Pool]:
        pools = (Pool * room)()
        pools[0].size = ctypes.sizeof(Pool)
        count = ctypes.c_int(-1)
        assert self.c.tfm_get_pools(pools, room, count) == SUCCESS
        return list(pools[: min(room, count.value)])

    def wait_settled(self, timeout: float) -> int:
        return int(self.c.tfm_wait_settled(timeout))

    def pool(self, kind: int) -> Pool:
        """Return the first pool of a kind, as it is now."""
        return next(pool for pool in self.get_pools() if pool.kind == kind)
