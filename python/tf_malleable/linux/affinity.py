# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The affinity mask of a whole process, ours or another."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from contextlib import suppress

from tf_malleable.model import Cpuset


def move(pid: int, cpus: Collection[int], *, but: int | None = None) -> None:
    """Give every thread of a process the affinity mask `cpus`.

    A thread inherits the mask of the one that starts it, so once a listing shows
    no thread that was not moved yet, none can appear later.

    Args:
        pid: The process.
        cpus: CPU numbers as the operating system counts them.
        but: Number of a thread that stays where it is.

    Raises:
        OSError: There is no such process, it may use none of these CPUs, or it is
            not ours to move. Some of its threads may have been moved.
    """
    moved = set() if but is None else {but}
    while fresh := {int(thread) for thread in os.listdir(f"/proc/{pid}/task")} - moved:
        for thread in fresh:
            with suppress(ProcessLookupError):  # It may end in between.
                os.sched_setaffinity(thread, cpus)
        moved |= fresh


def confine(pids: Iterable[int], cpus: Cpuset) -> None:
    """Move every thread of these processes to these CPUs, as far as that can be."""
    for pid in pids:
        with suppress(OSError):  # It has ended, or the kernel refuses.
            move(pid, cpus)
