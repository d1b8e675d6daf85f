# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The hard lever: which CPUs the process may use, for every thread it has.

Limits reach the threads of TensorFlow's pools. An affinity mask reaches all
others as well: tf.data's control threads, Python's, NumPy's.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Iterable

from tf_malleable.linux import affinity
from tf_malleable.runtime import _native, library, limits


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


def _move_other_threads(cpus: set[int]) -> None:
    affinity.move(os.getpid(), cpus, but=threading.get_native_id())


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
    os.sched_setaffinity(0, wanted)
    _move_other_threads(wanted)


def make_room(threads: int) -> None:
    """Lower limits that are above this number of threads, as far as there are any.

    Followed by a wait until they have settled, it lets tasks end where they run
    before their threads are moved onto fewer CPUs, where they would take longer.
    """
    if library.backend() is not None:
        now = _native.get_threads()
        _native.set_threads(
            threads if now.intra > threads else _native.KEEP,
            threads if now.inter > threads else _native.KEEP,
        )


def confine_others(cpus: Iterable[int]) -> None:
    """Confine the process to these CPUs as far as it can be, for a controller.

    Unlike set_cpuset() it does what is possible: where the set is larger than the
    capacity, the limits are the capacity; where TensorFlow is out of reach or the
    program has none, the affinity alone is changed. The calling thread stays where
    it is, for now: where it moves to it would have to queue for a CPU before it
    could say that the others have moved.

    Args:
        cpus: CPU numbers as the operating system counts them.

    Raises:
        ValueError: The set is empty or has something that is no CPU number.
        OSError: The process may use none of them.
    """
    wanted = _checked(cpus)
    _move_other_threads(wanted)
    limit_to(len(wanted))


def limit_to(threads: int) -> None:
    """Set the limits as far as they can be set, for a controller, and no affinity."""
    if library.backend() is not None:
        limits.set_by_grant(threads)


def confine_caller(cpus: Iterable[int]) -> None:
    """Confine the calling thread, and those that it will start, to these CPUs.

    Args and Raises: as confine_others().
    """
    os.sched_setaffinity(0, _checked(cpus))
