# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The hard lever: which CPUs the process may use, for every thread it has.

Limits reach the threads of TensorFlow's pools. An affinity mask reaches all
others as well: tf.data's control threads, Python's, NumPy's.
"""

from __future__ import annotations

import operator
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from tf_malleable.runtime import library, limits

_TASKS = Path("/proc/self/task")


def _checked(cpus: Iterable[int]) -> set[int]:
    problem = ValueError(f"a cpuset must be a non-empty set of CPU numbers from 0, not {cpus!r}")
    try:
        wanted = {operator.index(cpu) for cpu in cpus if not isinstance(cpu, bool)}
        all_numbers = not any(isinstance(cpu, bool) for cpu in cpus)
    except TypeError:
        raise problem from None
    if not wanted or min(wanted) < 0 or not all_numbers:
        raise problem
    return wanted


def _allowed() -> set[int]:
    """CPUs the kernel lets this process use, whatever it is using now.

    Asked for all CPUs, the kernel grants those of the cgroup's cpuset.
    """
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, range(os.cpu_count() or 1))
        return os.sched_getaffinity(0)
    finally:
        os.sched_setaffinity(0, before)


def _pin_all_threads(cpus: set[int]) -> None:
    """Give every thread of the process the affinity mask `cpus`.

    A thread inherits the mask of the one that starts it, so once a listing shows
    no thread that was not pinned yet, none can appear later.
    """
    pinned: set[str] = set()
    while True:
        fresh = {task.name for task in _TASKS.iterdir()} - pinned
        if not fresh:
            return
        for tid in fresh:
            with suppress(ProcessLookupError):  # It may end in between.
                os.sched_setaffinity(int(tid), cpus)
        pinned |= fresh


def set_cpuset(cpus: Iterable[int]) -> None:
    """Confine the process to these CPUs and set its limits to their number.

    All present threads are moved and all future ones inherit the mask, those
    that belong to no pool of TensorFlow included.

    Args:
        cpus: CPU numbers as the operating system counts them, ``{0, 3}`` say.

    Raises:
        ValueError: The set is empty, has something that is no CPU number, has a
            CPU this process may not use, or is larger than the capacity.
            Nothing has changed then.
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    library.require()
    wanted = _checked(cpus)
    allowed = _allowed()
    if not wanted <= allowed:
        raise ValueError(
            f"this process may use CPUs {sorted(allowed)}, not {sorted(wanted - allowed)}"
        )
    limits.set_threads(len(wanted))
    _pin_all_threads(wanted)
