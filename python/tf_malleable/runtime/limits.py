# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Thread limits of this process: setting, reading, and waiting until they take effect."""

from __future__ import annotations

import operator
import os
import threading
import weakref
from collections.abc import Iterable
from contextlib import ContextDecorator
from types import TracebackType
from typing import Final

from tf_malleable.model import Pool, PoolKind, Threads
from tf_malleable.runtime import _native, environment, library

_KINDS: Final[tuple[PoolKind, ...]] = ("intra_op", "inter_op", "other")

# Indices of the limits in a pair.
_INTRA: Final = 0
_INTER: Final = 1


class _Layer:
    """One temporary limit of each kind, above the baseline.

    Attributes:
        own: Limits, as arguments of _native.set_threads(); KEEP for a kind that it leaves alone.
        granted: Limits of a controller's grants since `own` was set; UNSET if there were none.
        is_firm: True if only a lower grant of a controller changes the limits.
        thread: The Python thread that has opened it.
        is_thread_alive: False if that thread had ended when this process was forked.
        owner: The Override, unless the program has dropped it.
    """

    def __init__(self, own: list[int], owner: Override, is_firm: bool) -> None:
        self.own = own
        self.granted = [_native.UNSET, _native.UNSET]
        self.is_firm = is_firm
        self.thread = threading.current_thread()
        self.is_thread_alive = True
        self.owner = weakref.ref(owner)

    def set(self, kind: int, limit: int) -> None:
        """Set one limit, which may be above what has been granted before."""
        self.own[kind], self.granted[kind] = limit, _native.UNSET

    def in_force(self, kind: int) -> int:
        """Return one limit, as far as grants since then allow it."""
        numbers = (self.own[kind], self.granted[kind])
        return min((n for n in numbers if n != _native.UNSET), default=_native.UNSET)


class _State:
    """Limits of this process, and their origins. "By hand" means: by the program itself.

    Attributes:
        lock: Guards the other attributes. Reentrant, as a signal handler may also set limits.
        by_hand: Number of times that limits were permanently set by hand.
        by_grants: Number of times that limits were set by a controller's grant.
        baseline: Limits that apply when no layer is active: those that were last set by hand, by a
            grant, by the cgroup or through the C ABI.
        unasked: The same, without those that were set by hand.
        applied: Limits that were last passed to _native.set_threads().
        layers: Active layers, oldest first.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.by_hand = 0
        self.by_grants = 0
        self.baseline = [_native.UNSET, _native.UNSET]
        self.unasked = [_native.UNSET, _native.UNSET]
        self.applied = [_native.UNSET, _native.UNSET]
        self.layers: list[_Layer] = []
        os.register_at_fork(before=self._look_at_threads, after_in_child=self._become_child)

    def _look_at_threads(self) -> None:
        for layer in self.layers:
            layer.is_thread_alive = layer.thread.is_alive()

    def _become_child(self) -> None:
        """Drop, in a forked child, the layers of threads that it does not have."""
        self.lock = threading.RLock()
        here = threading.current_thread()
        lost = [each for each in self.layers if each.is_thread_alive and each.thread is not here]
        for layer in lost:
            self.remove(layer)

    def adopt(self) -> None:
        """Adopt limits that have been set through the C ABI as the baseline."""
        now = _native.get_threads()
        for kind, found in enumerate((now.intra_set, now.inter_set)):
            if found != self.applied[kind]:
                self.baseline[kind] = self.applied[kind] = found

    def apply(self, kinds: Iterable[int]) -> None:
        """Put into force the limits of these kinds, as far as the capacity allows."""
        now = _native.get_threads()
        most = (now.intra_max, now.inter_max)
        limits = [_native.KEEP, _native.KEEP]
        for kind in kinds:
            layer = self.deciding(kind)
            limit = self.baseline[kind] if layer is None else layer.in_force(kind)
            limits[kind] = self.applied[kind] = min(limit, most[kind])
        _native.set_threads(*limits)

    def deciding(self, kind: int) -> _Layer | None:
        """Return the layer that decides about a limit: the newest, or the newest firm one."""
        found = None
        for layer in self.layers:
            if layer.own[kind] != _native.KEEP and not (
                found is not None and found.is_firm and not layer.is_firm
            ):
                found = layer
        return found

    def set_baseline(self, limits: Iterable[int]) -> list[int]:
        """Set limits of the baseline, as arguments of _native.set_threads(); return their kinds."""
        kinds = []
        for kind, limit in enumerate(limits):
            if limit != _native.KEEP:
                self.baseline[kind] = limit
                kinds.append(kind)
        return kinds

    def set_now(self, limits: Iterable[int]) -> None:
        """Set limits of the baseline, and those of the newest layer, so that they apply at once.

        Firm layers keep theirs.
        """
        self.adopt()
        kinds = self.set_baseline(limits)
        for kind in kinds:
            changeable = [each for each in self.layers if not each.is_firm]
            over = [each for each in changeable if each.own[kind] != _native.KEEP]
            if over:
                over[-1].set(kind, self.baseline[kind])
        self.apply(kinds)

    def add(self, layer: _Layer) -> None:
        """Add a layer, as the newest."""
        self._forget_outdated()
        self.adopt()
        self.layers.append(layer)
        self.apply(_kinds(layer.own))

    def _forget_outdated(self) -> None:
        """Forget layers that last, but can never decide again, as another one that lasts is newer.

        Else a program that calls threadpool_limits() again and again would collect them.
        """
        lasting = [each for each in self.layers if each.owner() is None]
        for older in lasting[:-1]:
            if not older.is_firm and {*_kinds(older.own)} <= {*_kinds(lasting[-1].own)}:
                self.layers.remove(older)

    def remove(self, layer: _Layer) -> None:
        """Remove a layer, if it is active."""
        if layer in self.layers:
            self.adopt()
            self.layers.remove(layer)
            self.apply(_kinds(layer.own))


_state = _State()


def _kinds(limits: Iterable[int]) -> list[int]:
    """Return the indices of those arguments of _native.set_threads() that set a limit."""
    return [kind for kind, limit in enumerate(limits) if limit != _native.KEEP]


def checked(name: str, value: object, highest: int, *, lowest: int = 1) -> int:
    """Return value as an int in lowest … highest; raise ValueError if it is not."""
    problem = ValueError(f"{name} must be an integer from {lowest} to {highest}, not {value!r}")
    if isinstance(value, bool):
        raise problem
    try:
        number = operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        raise problem from None
    if not lowest <= number <= highest:
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
        both = checked("threads", threads, min(most.intra_max, most.inter_max))
        return both, both
    return (
        _native.KEEP if intra is None else checked("intra", intra, most.intra_max),
        _native.KEEP if inter is None else checked("inter", inter, most.inter_max),
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
    _set_by_hand(_arguments(threads, intra, inter))


def _set_by_hand(limits: Iterable[int]) -> None:
    """Set limits, given as arguments of _native.set_threads(), permanently."""
    with _state.lock:
        _state.by_hand += 1
        _state.set_now(limits)


def set_or_unset(kind: int, limit: int) -> None:
    """Set the limit with this index; with 0, to what it is when none is set by hand.

    That is what a grant or the cgroup has set last, the limit to start with, or else the number of
    threads that TensorFlow was started with.
    """
    limits = [_native.KEEP, _native.KEEP]
    with _state.lock:
        if limit:
            _state.by_hand += 1
        limits[kind] = limit or _state.unasked[kind] or environment.first_threads() or 0
        _state.set_now(limits)


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
    return _state.by_hand


def times_set_by_grants() -> int:
    """Return how many times limits were set by a controller's grant."""
    return _state.by_grants


def set_by_grant(threads: int) -> None:
    """Set the limits for a controller's grant, up to the capacity.

    While an Override is active, its limits apply as far as the grant allows; the grant applies
    when it ends.
    """
    with _state.lock:
        _state.by_grants += 1
        for layer in _state.layers:
            layer.granted = [threads, threads]
        _set_unasked(threads)


def _set_unasked(threads: int) -> None:
    """Set both limits of the baseline to this number, or to the capacity if that is lower."""
    most = _native.get_threads()
    _state.adopt()
    _state.unasked = [min(threads, most.intra_max), min(threads, most.inter_max)]
    _state.apply(_state.set_baseline(_state.unasked))


def set_unless_by_hand(threads: int, times: int) -> bool:
    """Set both limits, up to the capacity, unless the program has set limits itself.

    While an Override is active, its limits apply; these apply when it ends.

    Args:
        threads: The limit.
        times: Value of times_set_by_hand() when the program began to follow the cgroup.

    Returns:
        False if nothing was set, because limits have been set by hand since then.
    """
    with _state.lock:
        is_free = _state.by_hand == times
        if is_free:
            _set_unasked(threads)
        return is_free


def are_within(threads: int) -> bool:
    """Return whether both limits of the baseline are set, and neither is above this number."""
    with _state.lock:
        _state.adopt()
        return all(1 <= limit <= threads for limit in _state.baseline)


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
        with _state.lock:
            self._layer = _Layer([intra, inter], self, is_firm)
            _state.add(self._layer)

    @property
    def thread(self) -> threading.Thread:
        """The Python thread that has set the limits."""
        return self._layer.thread

    def change(self, intra: int, inter: int) -> None:
        """Change the limits that the constructor has overridden; its arguments apply here."""
        with _state.lock:
            _state.adopt()
            for kind in _kinds(self._layer.own):
                self._layer.set(kind, (intra, inter)[kind])
            _state.apply(_kinds(self._layer.own))

    def end(self) -> None:
        """End the temporary limits, unless they have ended."""
        with _state.lock:
            _state.remove(self._layer)


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
        limit = checked("threads", threads, found.capacity)
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
