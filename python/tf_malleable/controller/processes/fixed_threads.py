# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fixed threads in jobs: finds processes that the kernel confines, but whose threads stay.

A program can replace the environment by which `tfm run` loads tf_malleable, or compute with
another library than TensorFlow, as Keras can. It then keeps the number of threads that it has
started with, whatever is granted.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from itertools import islice
from typing import Final, NamedTuple

from tf_malleable.controller.jobs.job_views import not_malleable
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.linux.processes.mapped_libraries import mapped_libraries

_OVERLAY: Final = "libtf_malleable_overlay"
_OPENMP_HOOK: Final = "libtf_malleable_openmp.so"
_OPENMP_LIBRARIES: Final = frozenset({"libtorch_cpu.so"})
# In this order: Keras on PyTorch loads JAX, too. `libjax_common` is that of jaxlib since 0.7.
_LIBRARIES: Final = {
    "libtensorflow_framework.so.2": "TensorFlow",
    "libtorch_cpu.so": "PyTorch",
    "libjax_common.so": "JAX",
    "xla_extension.so": "JAX",
}
# TensorFlow takes seconds to load, and may be loaded late; a process is inspected ever less often.
_FIRST_SECONDS: Final = 2.0
_LONGEST_SECONDS: Final = 60.0
_AT_ONCE: Final = 8
# Of each job: a look at thousands of processes would hold up the loop.
_MOST_PROCESSES: Final = 50

_log = logging.getLogger(__name__)


class _Due(NamedTuple):
    at: float
    gap: float


class FixedThreads:
    """Inspects processes without an agent. Not thread-safe: one asyncio loop."""

    def __init__(self) -> None:
        """Create the object without any knowledge."""
        self._due: dict[tuple[str, int], _Due] = {}

    async def look(self, jobs: Iterable[LiveJob], now: float) -> None:
        """Inspect the processes that are due, and record those with fixed threads.

        Args:
            jobs: Jobs whose processes are on this host.
            now: Unix time in seconds.
        """
        known, self._due = self._due, {}
        left = _AT_ONCE
        for live in jobs:
            agents = live.delivery.agents
            without = [
                *islice((p for p in live.processes.tree if p not in agents), _MOST_PROCESSES)
            ]
            found = {pid: name for pid, name in live.processes.fixed.items() if pid in without}
            for pid in without:
                key = live.record.id, pid
                due = known.get(key, _Due(now + _FIRST_SECONDS, _FIRST_SECONDS))
                if pid not in found and now >= due.at and left:
                    left -= 1
                    due = _Due(now + due.gap, min(2 * due.gap, _LONGEST_SECONDS))
                    library = await asyncio.to_thread(_fixed_library, pid)
                    if library is not None and not live.over:
                        found[pid] = library
                        where = f"process {pid}"
                        _log.warning("%s: %s", live.record.title, not_malleable(library, where))
                self._due[key] = due
            live.processes.note_fixed(
                {pid: name for pid, name in found.items() if pid not in live.delivery.agents}
            )


def _fixed_library(pid: int) -> str | None:
    """Return the name of the library in a process whose threads follow no grants, if any."""
    mapped = mapped_libraries(pid)
    if mapped is None or any(name.startswith(_OVERLAY) for name in mapped):
        return None
    follow = _OPENMP_LIBRARIES if _OPENMP_HOOK in mapped else frozenset()
    fixed = (title for name, title in _LIBRARIES.items() if name in mapped and name not in follow)
    return next(fixed, None)
