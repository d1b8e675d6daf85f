# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cpuset of the process: confines every thread to a set of CPUs.

Limits apply only to the threads of TensorFlow's pools. CPU affinity also applies to all
others: tf.data's control threads, Python's, NumPy's.
"""

from __future__ import annotations

import operator
import os
import threading
from collections.abc import Collection, Iterable
from contextlib import suppress

from tf_malleable.linux.processes import affinity
from tf_malleable.runtime import _native, library, limits

# Linux supports no more CPUs on x86-64, and ignores ids that no CPU has.
_MOST_CPUS = 8192


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
    """Return the CPUs that this process is allowed to use, whatever its current affinity.

    If the affinity is set to all CPUs, the kernel reduces it to the cgroup's cpuset.
    """
    before = os.sched_getaffinity(0)
    try:
        os.sched_setaffinity(0, range(_MOST_CPUS))
        return os.sched_getaffinity(0)
    finally:
        os.sched_setaffinity(0, before)


def _move_other_threads(cpus: set[int]) -> None:
    affinity.move(os.getpid(), cpus, but=threading.get_native_id())


def set_cpuset(cpus: Iterable[int]) -> None:
    """Confine the process to these CPUs, and set its limits to their number.

    This applies to all present and future threads, including those that are not in a
    pool of TensorFlow.

    Args:
        cpus: CPU numbers of the operating system, for example ``{0, 3}``.

    Raises:
        ValueError: The set is empty, or contains something that is not a CPU number or
            a CPU this process may not use. Nothing has changed then.
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
    """Lower the limits that are above this number of threads.

    If the caller then waits for the limits to settle, running tasks end before their
    threads are moved to fewer CPUs, on which they would take longer.
    """
    if library.backend() is not None:
        now = _native.get_threads()
        _native.set_threads(
            threads if now.intra > threads else _native.KEEP,
            threads if now.inter > threads else _native.KEEP,
        )


def confine_others(cpus: Iterable[int]) -> None:
    """Confine the process, except for the calling thread, to these CPUs, for a controller.

    Unlike set_cpuset(), this does as much as possible. If the set is larger than the
    capacity, the limits are the capacity; if TensorFlow is not malleable or not loaded,
    only the affinity changes. The calling thread keeps its affinity, as on the new CPUs it
    might have to wait for its turn before it can acknowledge the change.

    Args:
        cpus: CPU numbers of the operating system.

    Raises:
        ValueError: The set is empty or contains something that is not a CPU number.
        OSError: The process may use none of these CPUs.
    """
    wanted = _checked(cpus)
    _move_other_threads(wanted)
    limit_to(len(wanted))


def limit_to(threads: int) -> None:
    """Set the limits for a controller, up to the capacity; leave the affinity unchanged."""
    if library.backend() is not None:
        limits.set_by_grant(threads)


def follow_affinity(granted: Collection[int], before: int) -> int:
    """Lower the limits if others have confined the process to fewer CPUs than granted.

    They may have used taskset, or made its cpuset smaller. Once the process may use these CPUs
    again, the limits rise again. The calling thread is confined as the others are.

    Args:
        granted: CPUs that the process is confined to by the controller.
        before: Result of the last call, or the number of granted CPUs after a new grant.

    Returns:
        Number of the granted CPUs that the process may use, at least 1.
    """
    wanted = frozenset(granted)
    allowed = affinity.allowed([os.getpid()], wanted, but=threading.get_native_id())
    usable = allowed & wanted or allowed
    threads = max(1, min(len(usable), len(wanted)))
    if threads != before:
        limit_to(threads)
        with suppress(OSError):  # It may have been changed again.
            os.sched_setaffinity(0, usable)
    return threads


def confine_caller(cpus: Iterable[int]) -> None:
    """Confine the calling thread, and the threads that it starts later, to these CPUs.

    Args and Raises: as confine_others().
    """
    os.sched_setaffinity(0, _checked(cpus))
