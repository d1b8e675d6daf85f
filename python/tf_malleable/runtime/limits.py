# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Thread limits of this process: set them, read them, wait for them."""

from __future__ import annotations

import operator
import os
import threading
from contextlib import ContextDecorator
from types import TracebackType
from typing import Final

from tf_malleable.model import Pool, PoolKind, Threads
from tf_malleable.runtime import _native, library

_KINDS: Final[tuple[PoolKind, ...]] = ("intra_op", "inter_op", "other")


class _Decided:
    """Who has decided about the limits. By hand is by the program itself.

    Attributes:
        lock: Guards the others. A signal handler may set limits, too.
        by_hand: How often limits were set by hand, for good.
        by_grants: How often they were set as a controller grants.
        for_a_while: How many with Override() are open.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_hand = 0
        self.by_grants = 0
        self.for_a_while = 0
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self.lock = threading.RLock()


_decided = _Decided()


def _integer(name: str, value: object, highest: int) -> int:
    """Return value as an int in 1 … highest, or raise a ValueError that says so."""
    problem = ValueError(f"{name} must be an integer from 1 to {highest}, not {value!r}")
    if isinstance(value, bool):
        raise problem
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise problem from None
    if not 1 <= number <= highest:
        raise problem
    return number


def _arguments(threads: int | None, intra: int | None, inter: int | None) -> tuple[int, int]:
    """Return what _native.set_threads takes for these arguments of ours."""
    if threads is not None and (intra is not None or inter is not None):
        raise ValueError("give either one number for both limits, or intra= and inter=, not both")
    if threads is None and intra is None and inter is None:
        raise ValueError("give a number of threads, or intra= or inter=")
    most = _native.get_threads()
    if threads is not None:
        both = _integer("threads", threads, min(most.intra_max, most.inter_max))
        return both, both
    return (
        _native.KEEP if intra is None else _integer("intra", intra, most.intra_max),
        _native.KEEP if inter is None else _integer("inter", inter, most.inter_max),
    )


def set_threads(
    threads: int | None = None, *, intra: int | None = None, inter: int | None = None
) -> None:
    """Limit how many threads TensorFlow uses in this process, from now on.

    The call returns at once. Threads above a lower limit finish the task they
    are in; :func:`wait_settled` waits for that. A limit is a property of the
    process, whichever thread sets it, and holds for pools built later too.

    Args:
        threads: Limit for intra-op and inter-op alike.
        intra: Threads inside one op. Pools that are neither intra-op nor
            inter-op follow it as far as their capacity goes.
        inter: Ops run side by side.

    Raises:
        ValueError: Not an integer, or below 1, or above the capacity, which is
            TF_MALLEABLE_MAX_THREADS or else the number of CPUs of the host.
            Nothing has changed then.
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    library.require()
    limits = _arguments(threads, intra, inter)
    with _decided.lock:
        _decided.by_hand += 1
        _native.set_threads(*limits)


def times_set_by_hand() -> int:
    """Return how often limits of the process were set by hand, for good."""
    return _decided.by_hand


def times_set_by_grants() -> int:
    """Return how often limits were set as a controller grants."""
    return _decided.by_grants


def set_by_grant(threads: int) -> None:
    """Limit TensorFlow as a controller grants, as far as possible."""
    with _decided.lock:
        _decided.by_grants += 1
        _set_as_far_as_possible(threads)


def _set_as_far_as_possible(threads: int) -> None:
    """Limit TensorFlow to this number, or to the capacity where that is less."""
    most = _native.get_threads()
    _native.set_threads(min(threads, most.intra_max), min(threads, most.inter_max))


def set_unless_by_hand(threads: int, times: int) -> bool:
    """Limit TensorFlow as far as possible, unless the program has limits of its own.

    Args:
        threads: The limit.
        times: What times_set_by_hand() was when the program left it to others.

    Returns:
        False if nothing was set: limits have been set by hand since then, or are for
        a while.
    """
    with _decided.lock:
        free = _decided.by_hand == times and not _decided.for_a_while
        if free:
            _set_as_far_as_possible(threads)
        return free


def are_within(threads: int) -> bool:
    """Return whether limits are set, and none above this number."""
    now = _native.get_threads()
    return bool(1 <= now.intra_set <= threads and 1 <= now.inter_set <= threads)


class Override:
    """Limits of the program's own for a while.

    Meanwhile nobody follows the cgroup; afterwards limits are as before, and are
    followed again if they were.
    """

    def __init__(self, intra: int, inter: int) -> None:
        """Set the limits, as _native.set_threads takes them."""
        with _decided.lock:
            _decided.for_a_while += 1
            before = _native.get_threads()
            self._before = (
                _native.KEEP if intra == _native.KEEP else before.intra_set,
                _native.KEEP if inter == _native.KEEP else before.inter_set,
            )
            _native.set_threads(intra, inter)

    def end(self) -> None:
        """Restore the limits."""
        with _decided.lock:
            _native.set_threads(*self._before)
            _decided.for_a_while -= 1


def set_pool_threads(pool: int, threads: int) -> None:
    """Limit one pool, until the next :func:`set_threads` that concerns its kind.

    Args:
        pool: Its id, from :func:`pools`.
        threads: 1 … its capacity.

    Raises:
        ValueError: No live pool has this id, or threads is out of range.
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    live = {candidate.id: candidate for candidate in pools()}
    found = live.get(pool)
    if found is not None:
        limit = _integer("threads", threads, found.capacity)
        if _native.set_pool_threads(pool, limit) != _native.ERR_NO_POOL:
            return
        del live[pool]  # It went away meanwhile.
    now = ", ".join(map(str, live)) or "none"
    raise ValueError(f"there is no pool {pool!r} any more or yet; pools now: {now}")


def get_threads() -> Threads:
    """Return the limits in force.

    Raises:
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    library.require()
    now = _native.get_threads()
    return Threads(intra=now.intra or None, inter=now.inter or None)


class threads(ContextDecorator):  # noqa: N801 - used like a function
    """Limit TensorFlow's threads for a while: a context manager and a decorator.

    ``with threads(1): …`` and ``@threads(1)`` set the limits on entry, as
    :func:`set_threads` does, and restore on exit those that were set before. Limits
    that follow the cgroup pause meanwhile.
    They are limits of the whole process all the same: other Python threads see
    them too, and overlapping uses from several threads restore in any order.

    Args and Raises: as :func:`set_threads`.
    """

    def __init__(
        self, threads: int | None = None, *, intra: int | None = None, inter: int | None = None
    ) -> None:
        library.require()
        self._limits = _arguments(threads, intra, inter)
        self._open: list[Override] = []

    def __enter__(self) -> Threads:
        self._open.append(Override(*self._limits))
        return get_threads()

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.pop().end()


def pools() -> list[Pool]:
    """Return TensorFlow's live thread pools, in the order they were built.

    Raises:
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    library.require()
    return [
        Pool(
            id=pool.id,
            name=pool.name,
            kind=_KINDS[pool.kind],
            capacity=pool.capacity,
            limit=pool.limit,
            active=pool.active,
            queued=pool.queued,
            tasks_run=pool.tasks,
            stand_in_tasks=pool.stand_ins,
            busy_seconds=pool.busy_seconds,
        )
        for pool in _native.get_pools()
    ]


def wait_settled(timeout: float = 1.0) -> bool:
    """Wait until no pool has more active workers than its limit.

    Args:
        timeout: How long to wait at most, in seconds.

    Returns:
        True once settled, False if the time was up first.

    Raises:
        ValueError: timeout is negative or no number.
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    library.require()
    try:
        seconds = float(timeout)
    except (TypeError, ValueError):
        seconds = -1.0
    if not seconds >= 0:
        raise ValueError(f"timeout must be a number of seconds from 0, not {timeout!r}")
    return bool(_native.wait_settled(seconds) == _native.SUCCESS)
