# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Thread limits of this process: setting, reading, and waiting until they take effect."""

from __future__ import annotations

import operator
import threading
from collections.abc import Sequence
from contextlib import ContextDecorator
from types import TracebackType
from typing import Final

from tf_malleable.model import Pool, PoolKind, Threads
from tf_malleable.runtime import _native, environment, library
from tf_malleable.runtime.limit_stack import Layer, LimitStack

_KINDS: Final[tuple[PoolKind, ...]] = ("intra_op", "inter_op", "other")


class _Origins:
    """Origins of the limits. "By hand" means: by the program itself.

    Attributes:
        by_hand: Number of times that limits were permanently set by hand.
        by_grants: Number of times that limits were set by a controller's grant.
        unasked: Limits that a grant or the cgroup has set last; UNSET if neither has.
    """

    def __init__(self) -> None:
        self.by_hand = 0
        self.by_grants = 0
        self.unasked = [_native.UNSET, _native.UNSET]


_origins = _Origins()
_stack = LimitStack()


def checked(name: str, value: object, highest: int, *, lowest: int = 1) -> int:
    """Return value as an int in lowest … highest; raise ValueError if it is not."""
    number = _integer(value)
    if number is None or not lowest <= number <= highest:
        raise ValueError(f"{name} must be an integer from {lowest} to {highest}, not {value!r}")
    return number


def _integer(value: object) -> int | None:
    """Return value as an int; None if it is no integer."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return None


def _bounded(name: str, value: object, highest: int) -> int:
    """Return value as an int in 1 … highest; what is above is the highest.

    Raises:
        ValueError: It is no integer from 1.
    """
    number = _integer(value)
    if number is None or number < 1:
        raise ValueError(f"{name} must be an integer from 1, not {value!r}")
    return min(number, highest)


def _arguments(threads: int | None, intra: int | None, inter: int | None) -> tuple[int, int]:
    """Convert arguments of set_threads() to those of _native.set_threads()."""
    if threads is not None and (intra is not None or inter is not None):
        raise ValueError("give either one number for both limits, or intra= and inter=, not both")
    if threads is None and intra is None and inter is None:
        raise ValueError("give a number of threads, or intra= or inter=")
    most = _native.get_threads()
    if threads is not None:
        both = _bounded("threads", threads, min(most.intra_max, most.inter_max))
        return both, both
    return (
        _native.KEEP if intra is None else _bounded("intra", intra, most.intra_max),
        _native.KEEP if inter is None else _bounded("inter", inter, most.inter_max),
    )


def set_threads(
    threads: int | None = None, *, intra: int | None = None, inter: int | None = None
) -> Threads:
    """Limit how many threads TensorFlow uses in this process, from now on.

    The call returns at once. Threads above the limit first finish their task;
    :func:`wait_settled` waits for that. The limits apply to the whole process, whichever
    thread sets them, and also to pools built later.

    A number above the capacity, which is TF_MALLEABLE_MAX_THREADS or else the number of the
    host's CPUs, stands for the capacity.

    Args:
        threads: Limit for both intra-op and inter-op.
        intra: Intra-op limit: threads inside one op. Pools that are neither intra-op nor
            inter-op follow it, up to their capacity.
        inter: Inter-op limit: ops that run concurrently.

    Returns:
        The limits in force.

    Raises:
        ValueError: A limit is not an integer from 1. Nothing has changed then.
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    library.require()
    _set_by_hand(_arguments(threads, intra, inter))
    return get_threads()


def _set_by_hand(limits: Sequence[int]) -> None:
    """Set limits, given as arguments of _native.set_threads(), permanently."""
    with _stack.lock:
        _origins.by_hand += 1
        _stack.set_now(limits)


def set_or_unset(kind: int, limit: int) -> None:
    """Set the limit with this index; with 0, to what it is when none is set by hand.

    That is what a grant or the cgroup has set last, the limit to start with, or else the number of
    threads that TensorFlow was started with.
    """
    limits = [_native.KEEP, _native.KEEP]
    with _stack.lock:
        if limit:
            _origins.by_hand += 1
        limits[kind] = limit or _origins.unasked[kind] or environment.first_threads() or 0
        _stack.set_now(limits)


def in_force() -> tuple[int, int]:
    """Return the limits in force, 0 for one that there is not yet."""
    now = _native.get_threads()
    return now.intra, now.inter


def highest() -> tuple[int, int]:
    """Return the highest limits that can be set."""
    now = _native.get_threads()
    return now.intra_max, now.inter_max


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
    with _stack.lock:
        _origins.by_grants += 1
        _stack.set_granted(threads)
        _set_unasked(threads)


def _set_unasked(threads: int) -> None:
    """Set both limits of the baseline to this number, or to the capacity if that is lower."""
    most = _native.get_threads()
    _origins.unasked = [min(threads, most.intra_max), min(threads, most.inter_max)]
    _stack.set_baseline(_origins.unasked)


def set_unless_by_hand(threads: int, times: int) -> bool:
    """Set both limits, up to the capacity, unless the program has set limits itself.

    While an Override is active, its limits apply; these apply when it ends.

    Args:
        threads: The limit.
        times: Value of times_set_by_hand() when the program began to follow the cgroup.

    Returns:
        False if nothing was set, because limits have been set by hand since then.
    """
    with _stack.lock:
        is_free = _origins.by_hand == times
        if is_free:
            _set_unasked(threads)
        return is_free


def are_within(threads: int) -> bool:
    """Return whether both limits of the baseline are set, and neither is above this number."""
    with _stack.lock:
        _stack.adopt()
        return all(1 <= limit <= threads for limit in _stack.baseline)


class Override:
    """Temporary limits, set by the program.

    While Overrides are active, the newest one decides. When all have ended, in whatever order, the
    limits are those that were last set by the program, a controller's grant or the cgroup, before
    or meanwhile. An Override that the program drops without ending it lasts.

    A firm Override stays in force whatever limits the program or the cgroup set in the
    meantime; those apply when it ends. If it overrides only one limit, the other one continues
    to follow the program and the cgroup.
    """

    def __init__(self, intra: int, inter: int, *, is_firm: bool = False) -> None:
        """Set the limits.

        Args:
            intra: Intra-op limit, as an argument of _native.set_threads().
            inter: Inter-op limit, as an argument of _native.set_threads().
            is_firm: True if only a lower grant of a controller changes the limits.
        """
        with _stack.lock:
            self._layer = Layer([intra, inter], self, is_firm)
            _stack.add(self._layer)

    @property
    def thread(self) -> threading.Thread:
        """The Python thread that has set the limits."""
        return self._layer.thread

    def change(self, intra: int, inter: int) -> None:
        """Change the limits that the constructor has overridden; its arguments apply here."""
        with _stack.lock:
            _stack.change(self._layer, (intra, inter))

    def end(self) -> None:
        """End the temporary limits, unless they have ended."""
        with _stack.lock:
            _stack.remove(self._layer)


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
        threads: The limit, from 1; above the pool's capacity, it is the capacity.

    Raises:
        ValueError: No live pool has this id, or `threads` is not an integer from 1.
        NotMalleableError: TensorFlow was imported before tf_malleable.
    """
    live = {candidate.id: candidate for candidate in pools()}
    found = live.get(pool)
    if found is not None:
        limit = _bounded("threads", threads, found.capacity)
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
    :func:`set_threads`. The limits apply to the whole process, including other Python threads.
    If uses are nested, or overlap in several threads, the newest of them decides. When all have
    ended, in whatever order, the limits are those that :func:`set_threads`, a controller's grant
    or the cgroup has set last, before or meanwhile. A grant also lowers limits that are above it
    at once, and :func:`set_threads` changes the limits of the newest use.

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
        # Several threads may run a decorated function at a time.
        here = threading.current_thread()
        mine = [each for each in self._open if each.thread is here]
        ended = (mine or self._open)[-1]
        self._open.remove(ended)
        ended.end()


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
            follows="free",
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
