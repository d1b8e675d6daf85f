# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Thread limits of this process: setting, reading, and waiting until they take effect."""

from __future__ import annotations

import operator
import os
import threading
from contextlib import ContextDecorator
from itertools import pairwise
from types import TracebackType
from typing import Final

from tf_malleable.model import Pool, PoolKind, Threads
from tf_malleable.runtime import _native, library

_KINDS: Final[tuple[PoolKind, ...]] = ("intra_op", "inter_op", "other")

# Indices of the limits in a pair.
_INTRA: Final = 0
_INTER: Final = 1


class _Origins:
    """Origins of the limits. "By hand" means: by the program itself.

    Attributes:
        lock: Guards the other attributes. Reentrant, as a signal handler may also set limits.
        by_hand: Number of times that limits were permanently set by hand.
        by_grants: Number of times that limits were set by a controller's grant.
        overrides: Active Overrides, oldest first.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_hand = 0
        self.by_grants = 0
        self.overrides: list[Override] = []
        os.register_at_fork(after_in_child=self._renew_lock)

    def _renew_lock(self) -> None:
        self.lock = threading.RLock()


_origins = _Origins()


def _integer(name: str, value: object, highest: int) -> int:
    """Return value as an int in 1 … highest; raise ValueError if it is not."""
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
    """Convert arguments of set_threads() to those of _native.set_threads()."""
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

    The call returns at once. Threads above the limit first finish their task;
    :func:`wait_settled` waits for that. The limits apply to the whole process, whichever
    thread sets them, and also to pools built later.

    Args:
        threads: Limit for both intra-op and inter-op.
        intra: Intra-op limit: threads inside one op. Pools that are neither intra-op nor
            inter-op follow it, up to their capacity.
        inter: Inter-op limit: ops that run concurrently.

    Raises:
        ValueError: A limit is not an integer from 1 to the capacity, which is
            TF_MALLEABLE_MAX_THREADS or else the number of the host's CPUs. Nothing
            has changed then.
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    library.require()
    limits = [*_arguments(threads, intra, inter)]
    with _origins.lock:
        _origins.by_hand += 1
        for kind, limit in enumerate(limits):
            if limit != _native.KEEP and (active := _overrides_of(kind)):
                if active[-1].is_firm:
                    limits[kind] = _native.KEEP
                    active[-1].before[kind] = limit
                else:
                    active[-1].own[kind] = limit
        _native.set_threads(*limits)


def times_set_by_hand() -> int:
    """Return how many times limits were permanently set by hand."""
    return _origins.by_hand


def times_set_by_grants() -> int:
    """Return how many times limits were set by a controller's grant."""
    return _origins.by_grants


def set_by_grant(threads: int) -> None:
    """Set the limits for a controller's grant, up to the capacity.

    While an Override is active, its limits apply as far as the grant allows; the grant applies
    when it ends.
    """
    with _origins.lock:
        _origins.by_grants += 1
        most = _native.get_threads()
        _native.set_threads(
            _by_grant(_INTRA, min(threads, most.intra_max)),
            _by_grant(_INTER, min(threads, most.inter_max)),
        )


def _by_grant(kind: int, threads: int) -> int:
    """Make the Overrides of a limit restore this grant; return the limit until then."""
    active = _overrides_of(kind)
    if not active:
        return threads
    active[0].before[kind] = threads
    for outer, inner in pairwise(active):
        inner.before[kind] = min(outer.own[kind], threads)
    return min(active[-1].own[kind], threads)


def _overrides_of(kind: int) -> list[Override]:
    """Return the active Overrides of the intra-op or the inter-op limit, oldest first."""
    return [each for each in _origins.overrides if each.own[kind] != _native.KEEP]


def _set_up_to_capacity(threads: int) -> None:
    """Set both limits to this number, or to the capacity if that is lower.

    If a limit has firm Overrides, they stay in force and restore this number when they end.
    """
    most = _native.get_threads()
    limits = [min(threads, most.intra_max), min(threads, most.inter_max)]
    for kind, limit in enumerate(limits):
        if active := _overrides_of(kind):
            active[-1].before[kind] = limit
            limits[kind] = _native.KEEP
    _native.set_threads(*limits)


def set_unless_by_hand(threads: int, times: int) -> bool:
    """Set both limits, up to the capacity, unless the program has set limits itself.

    Args:
        threads: The limit.
        times: Value of times_set_by_hand() when the program began to follow the cgroup.

    Returns:
        False if nothing was set, because limits have been set by hand since then or an
        Override is active that is not firm.
    """
    with _origins.lock:
        firm = all(each.is_firm for each in _origins.overrides)
        free = firm and _origins.by_hand == times
        if free:
            _set_up_to_capacity(threads)
        return free


def are_within(threads: int) -> bool:
    """Return whether both limits are set, and neither is above this number."""
    now = _native.get_threads()
    return bool(1 <= now.intra_set <= threads and 1 <= now.inter_set <= threads)


class Override:
    """Temporary limits, set by the program.

    While an Override is active, the limits do not follow the cgroup. When it ends, they are
    restored, or set to what a controller has granted in the meantime, and follow the cgroup
    again if they did before.

    A firm Override stays in force whatever limits the program or the cgroup set in the
    meantime; those apply when it ends. If it overrides only one limit, the other one continues
    to follow the program and the cgroup.

    Attributes:
        own: Temporary limits, as arguments of _native.set_threads().
        before: Limits to restore, as arguments of _native.set_threads().
        is_firm: True if only a lower grant of a controller changes the limits.
    """

    def __init__(self, intra: int, inter: int, *, is_firm: bool = False) -> None:
        """Set the limits.

        Args:
            intra: Intra-op limit, as an argument of _native.set_threads().
            inter: Inter-op limit, as an argument of _native.set_threads().
            is_firm: True if only a lower grant of a controller changes the limits.
        """
        self.is_firm = is_firm
        with _origins.lock:
            now = _native.get_threads()
            firm = [bool(active) and active[-1].is_firm for active in map(_overrides_of, (0, 1))]
            intra, inter = (
                _native.KEEP if kept else limit
                for kept, limit in zip(firm, (intra, inter), strict=True)
            )
            self.own = [intra, inter]
            self.before = [
                _native.KEEP if intra == _native.KEEP else now.intra_set,
                _native.KEEP if inter == _native.KEEP else now.inter_set,
            ]
            _native.set_threads(intra, inter)
            _origins.overrides.append(self)

    def change(self, intra: int, inter: int) -> None:
        """Change the limits that the constructor has overridden; its arguments apply here."""
        with _origins.lock:
            self.own = [
                _native.KEEP if own == _native.KEEP else limit
                for own, limit in zip(self.own, (intra, inter), strict=True)
            ]
            _native.set_threads(*self.own)

    def end(self) -> None:
        """Restore the limits."""
        with _origins.lock:
            _native.set_threads(*self.before)
            _origins.overrides.remove(self)


def fix_intra(threads: int) -> Override:
    """Fix the intra-op limit at this number, or at the capacity if that is lower.

    Returns:
        The firm Override, to be ended by the caller. The inter-op limit is not overridden.
    """
    limit = min(threads, _native.get_threads().intra_max)
    return Override(limit, _native.KEEP, is_firm=True)


def set_pool_threads(pool: int, threads: int) -> None:
    """Limit one pool, until the next :func:`set_threads` for its kind.

    Args:
        pool: The pool's id, from :func:`pools`.
        threads: The limit, from 1 to the pool's capacity.

    Raises:
        ValueError: No live pool has this id, or `threads` is out of range.
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    live = {candidate.id: candidate for candidate in pools()}
    found = live.get(pool)
    if found is not None:
        limit = _integer("threads", threads, found.capacity)
        if _native.set_pool_threads(pool, limit) != _native.ERR_NO_POOL:
            return
        del live[pool]  # It has been destroyed meanwhile.
    now = ", ".join(map(str, live)) or "none"
    raise ValueError(f"there is no pool {pool!r}; live pools: {now}")


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

    ``with threads(1): …`` and ``@threads(1)`` set the limits on entry, like
    :func:`set_threads`, and restore the previous ones on exit. In between, the limits do not
    follow the cgroup. A controller's grant lowers limits that are above it, and applies on
    exit. The limits apply to the whole process, including other Python threads. If uses in
    several threads overlap, each restores on exit the limits that it found on entry.

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
        timeout: Longest wait, in seconds.

    Returns:
        True if settled, False after the timeout.

    Raises:
        ValueError: `timeout` is negative or not a number.
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
