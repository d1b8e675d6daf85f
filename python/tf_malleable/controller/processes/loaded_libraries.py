# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Loaded libraries of jobs: finds how the threads of each process follow the job's CPUs.

Some follow none. A program can replace the environment by which `tfm run` loads tf_malleable and
its OpenMP hook, or compute with a library that neither reaches. The kernel confines it, but it
keeps the number of threads that it has started with, whatever is granted.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import os
from collections.abc import Sequence
from itertools import islice
from typing import Final, NamedTuple

from tf_malleable.controller.jobs.job_views import not_malleable
from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.controller.processes.thread_libraries import (
    InspectedProcess,
    fixed_framework,
    thread_libraries,
)
from tf_malleable.linux.processes.memory_map import environment, memory_map
from tf_malleable.model.pool import ThreadLibrary

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


class _Key(NamedTuple):
    job: str
    pid: int
    has_agent: bool  # One that gets an agent is inspected anew.


class LoadedLibraries:
    """Inspects processes. Not thread-safe: one asyncio loop."""

    def __init__(self) -> None:
        """Create the object without any knowledge."""
        self._due: dict[_Key, _Due] = {}

    async def look(self, jobs: Sequence[LiveJob], now: float) -> None:
        """Inspect the processes that have been due for longest, and record what they have loaded.

        Args:
            jobs: Jobs whose processes are on this host.
            now: Unix time in seconds.
        """
        keys = {live.record.id: _keys(live) for live in jobs}
        first = _Due(now + _FIRST_SECONDS, _FIRST_SECONDS)
        self._due = {key: self._due.get(key, first) for each in keys.values() for key in each}
        due = (key for key, when in self._due.items() if now >= when.at)
        found: dict[_Key, tuple[ThreadLibrary, ...]] = {}
        for key in heapq.nsmallest(_AT_ONCE, due, key=lambda key: self._due[key].at):
            gap = self._due[key].gap
            self._due[key] = _Due(now + gap, min(2 * gap, _LONGEST_SECONDS))
            found[key] = await asyncio.to_thread(_libraries, key.pid, key.has_agent)
        for live in jobs:
            if not live.over:
                before = live.processes.libraries
                _note(
                    live, {k.pid: found.get(k, before.get(k.pid, ())) for k in keys[live.record.id]}
                )


def _keys(live: LiveJob) -> list[_Key]:
    agents = live.delivery.agents
    return [
        _Key(live.record.id, pid, pid in agents)
        for pid in islice(live.processes.tree, _MOST_PROCESSES)
    ]


def _note(live: LiveJob, found: dict[int, tuple[ThreadLibrary, ...]]) -> None:
    """Record what a job's processes have loaded, and log which have fixed threads."""
    fixed = {
        pid: name
        for pid, libraries in found.items()
        if pid not in live.delivery.agents and (name := fixed_framework(libraries)) is not None
    }
    for pid in fixed.keys() - live.processes.fixed.keys():
        said = not_malleable(fixed[pid], f"process {pid}")
        _log.warning("%s: %s", live.record.title, said)
    live.processes.note_libraries(found, fixed)


def _libraries(pid: int, has_agent: bool) -> tuple[ThreadLibrary, ...]:
    """Return what a process has loaded; nothing if it is gone or may not be inspected."""
    maps = memory_map(pid)
    if maps is None:
        return ()
    try:
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return ()
    seen = InspectedProcess(maps, environment(pid) or b"", threads, has_agent)
    return thread_libraries(seen, os.cpu_count() or 1)
