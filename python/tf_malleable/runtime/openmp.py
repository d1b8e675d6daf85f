# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""OpenMP teams of this process, through the hook that `tfm run` preloads into each program.

Nothing here has an effect in a process without the hook: started without `tfm run`, statically
linked, or with TF_MALLEABLE_OPENMP=0.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Final

from tf_malleable.model.pool import Follows, OpenMPLibrary

# As in cc/openmp/openmp.cc.
_FOLLOWS: Final[dict[str, Follows]] = {
    "free": "free",
    "shrink": "shrink only",
    "operations": "at op boundaries",
    "confined": "confined only",
}
_LONGEST: Final = 1 << 18


@functools.cache
def _hook() -> ctypes.CDLL | None:
    """Return the process's functions if they include the hook's."""
    process = ctypes.CDLL(None)
    if not hasattr(process, "tfm_openmp_set_limit"):
        return None
    process.tfm_openmp_callers.restype = ctypes.c_size_t
    process.tfm_openmp_callers.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    return process


def set_limit(threads: int) -> None:
    """Limit the teams of the process; 0 limits them to the CPUs that it may use."""
    hook = _hook()
    if hook is not None:
        hook.tfm_openmp_set_limit(threads)


def regions() -> int:
    """Return the number of parallel regions of libraries that are free, or shrink only.

    The same work takes as many with any number of threads. 0 in a process without the hook, or
    with one of an earlier version.
    """
    hook = _hook()
    if hook is None or not hasattr(hook, "tfm_openmp_regions"):
        return 0
    hook.tfm_openmp_regions.restype = ctypes.c_uint64
    return int(hook.tfm_openmp_regions())


def openmp_libraries() -> list[OpenMPLibrary]:
    """Return the libraries that have called OpenMP in this process, by their first call.

    After these, each OpenBLAS that has threads of its own, as in NumPy's wheels, and each BLIS.
    The list is empty in a process that was not started with `tfm run`.
    """
    hook = _hook()
    if hook is None:
        return []
    text = ctypes.create_string_buffer(_LONGEST)
    length = hook.tfm_openmp_callers(text, _LONGEST)
    limit, capacity = hook.tfm_openmp_limit(), hook.tfm_openmp_capacity()
    lines = text.raw[:length].decode(errors="replace").splitlines()
    return [
        OpenMPLibrary(path=path, follows=_FOLLOWS[word], limit=limit, capacity=capacity)
        for word, _, path in (line.partition(" ") for line in lines)
    ]
