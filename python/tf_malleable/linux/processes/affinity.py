# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The CPU affinity of whole processes."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final

from tf_malleable.model import Cpuset

# Listings of the threads of one process. A program that creates threads all the time must not keep
# us for ever; those that it creates later have inherited the affinity of one that was moved.
_MOST_LISTINGS: Final = 16


def move(pid: int, cpus: Collection[int], *, but: int | None = None) -> None:
    """Set the CPU affinity of every thread of a process.

    A thread inherits the affinity of the thread that creates it. So once a listing shows no
    unmoved thread, none can appear later. At most 16 listings are made.

    Args:
        pid: Pid of the process.
        cpus: CPU numbers of the operating system.
        but: Id of a thread whose affinity is not changed; None for no such thread.

    Raises:
        OSError: There is no such process, it is allowed none of these CPUs, or this process
            lacks the permission. Some threads may have been moved.
    """
    for thread in _threads(pid, but):
        with suppress(ProcessLookupError):  # The thread may have ended since the listing.
            os.sched_setaffinity(thread, cpus)


def _threads(pid: int, but: int | None = None) -> Iterator[int]:
    """Yield the id of every thread of a process but one, also of those that appear meanwhile."""
    seen = set() if but is None else {but}
    for _ in range(_MOST_LISTINGS):
        fresh = {int(thread) for thread in os.listdir(f"/proc/{pid}/task")} - seen
        if not fresh:
            return
        yield from fresh
        seen |= fresh


def confine(pids: Iterable[int], cpus: Cpuset) -> None:
    """Move every thread of these processes to these CPUs; skip processes that fail."""
    for pid in pids:
        with suppress(OSError):  # The process has ended, or the kernel refuses.
            move(pid, cpus)


def allowed(pids: Iterable[int], wanted: Cpuset, *, but: int | None = None) -> Cpuset:
    """Return the CPUs that some thread of these processes may use; skip processes that have ended.

    Threads are read one by one until all wanted CPUs are found, which is usually the first.

    Args:
        pids: Pids of the processes.
        wanted: CPUs to look for.
        but: Id of a thread that does not count; None for no such thread.
    """
    found: set[int] = set()
    for pid in pids:
        with suppress(OSError):
            # The main thread first, as it needs no listing.
            found |= os.sched_getaffinity(pid)
            for thread in () if wanted <= found else os.listdir(f"/proc/{pid}/task"):
                if int(thread) not in (pid, but):
                    with suppress(ProcessLookupError):
                        found |= os.sched_getaffinity(int(thread))
                if wanted <= found:
                    break
        if wanted <= found:
            break
    return frozenset(found)


def narrow(pids: Iterable[int], cpus: Cpuset) -> None:
    """Restrict every thread of these processes to these CPUs; skip processes that fail.

    A thread keeps those of these CPUs that its affinity has already, or gets all if it has none.
    """
    for pid in pids:
        with suppress(OSError):
            for thread in _threads(pid):
                with suppress(ProcessLookupError):
                    may_use = os.sched_getaffinity(thread)
                    if not may_use <= cpus:
                        os.sched_setaffinity(thread, may_use & cpus or cpus)
