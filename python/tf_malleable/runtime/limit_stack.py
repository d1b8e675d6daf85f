# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The stack of limits: a baseline, and temporary limits above it that may end in any order.

Limits come in pairs, intra-op first, and are arguments of _native.set_threads(): a number, KEEP or
UNSET.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Iterable, Sequence

from tf_malleable.runtime import _native, openmp


def _kinds(limits: Sequence[int]) -> list[int]:
    """Return the indices of those limits that are not KEEP."""
    return [kind for kind, limit in enumerate(limits) if limit != _native.KEEP]


class Layer:
    """Temporary limits.

    Attributes:
        own: Its limits; KEEP for one that it leaves alone.
        granted: Limits of a controller's grants since `own` was set; UNSET if there were none.
        is_firm: True if only a lower grant of a controller changes the limits.
        thread: The Python thread that has opened it.
        is_thread_alive: False if that thread had ended when this process was forked.
        owner: The object that can end it, unless the program has dropped that.
    """

    def __init__(self, own: list[int], owner: object, is_firm: bool) -> None:
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


class LimitStack:
    """The baseline and the active layers, of which the newest decides.

    Attributes:
        lock: Guards the other attributes, and is held by callers. Reentrant, as a signal handler
            may also set limits.
        baseline: Limits that apply when no layer is active: those that were set last, also those
            that were set through the C ABI.
        layers: Active layers, oldest first.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.baseline = [_native.UNSET, _native.UNSET]
        self.layers: list[Layer] = []
        # What was last passed to _native.set_threads().
        self._applied = [_native.UNSET, _native.UNSET]
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

    def set_baseline(self, limits: Sequence[int]) -> None:
        """Set limits that apply as far as no layer is active."""
        self.adopt()
        self._set(limits)

    def set_now(self, limits: Sequence[int]) -> None:
        """Set limits that also apply at once, as the newest layer becomes equal to them.

        Firm layers keep theirs.
        """
        self.adopt()
        for kind in _kinds(limits):
            changeable = [each for each in self.layers if not each.is_firm]
            over = [each for each in changeable if each.own[kind] != _native.KEEP]
            if over:
                over[-1].set(kind, limits[kind])
        self._set(limits)

    def set_granted(self, threads: int) -> None:
        """Set a number above which no layer is, until its limits are set again."""
        for layer in self.layers:
            layer.granted = [threads, threads]

    def add(self, layer: Layer) -> None:
        """Add a layer, as the newest."""
        self._forget_outdated()
        self.adopt()
        self.layers.append(layer)
        self._apply(_kinds(layer.own))

    def _forget_outdated(self) -> None:
        """Forget layers that last, but can never decide again, as another one that lasts is newer.

        Else a program that calls threadpool_limits() again and again would collect them.
        """
        lasting = [each for each in self.layers if each.owner() is None]
        for older in lasting[:-1]:
            if not older.is_firm and {*_kinds(older.own)} <= {*_kinds(lasting[-1].own)}:
                self.layers.remove(older)

    def change(self, layer: Layer, limits: Sequence[int]) -> None:
        """Change those limits of an active layer that it does not leave alone."""
        self.adopt()
        for kind, limit in enumerate(limits):
            if layer.own[kind] != _native.KEEP:
                layer.set(kind, limit)
        self._apply(_kinds(layer.own))

    def remove(self, layer: Layer) -> None:
        """Remove a layer, if it is active."""
        if layer in self.layers:
            self.adopt()
            self.layers.remove(layer)
            self._apply(_kinds(layer.own))

    def adopt(self) -> None:
        """Adopt limits that have been set through the C ABI as the baseline."""
        now = _native.get_threads()
        for kind, found in enumerate((now.intra_set, now.inter_set)):
            if found != self._applied[kind]:
                self.baseline[kind] = self._applied[kind] = found

    def _set(self, limits: Sequence[int]) -> None:
        for kind in _kinds(limits):
            self.baseline[kind] = limits[kind]
        self._apply(_kinds(limits))

    def _apply(self, kinds: Iterable[int]) -> None:
        """Put into force the limits of these kinds, as far as the capacity allows."""
        now = _native.get_threads()
        most = (now.intra_max, now.inter_max)
        limits = [_native.KEEP, _native.KEEP]
        for kind in kinds:
            layer = self._deciding(kind)
            limit = self.baseline[kind] if layer is None else layer.in_force(kind)
            limits[kind] = self._applied[kind] = min(limit, most[kind])
        _native.set_threads(*limits)
        if limits[0] != _native.KEEP:
            openmp.set_limit(limits[0])

    def _deciding(self, kind: int) -> Layer | None:
        """Return the layer that decides about a limit: the newest firm one, or else the newest."""
        over = [each for each in self.layers if each.own[kind] != _native.KEEP]
        deciding = [each for each in over if each.is_firm] or over
        return deciding[-1] if deciding else None
