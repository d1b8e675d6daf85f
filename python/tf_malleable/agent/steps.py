# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How far the program is: what it says itself, or else Keras' own count.

Keras tells a fit's CallbackList each time steps have been done. We look over its
shoulder there instead of adding a callback: a callback can make Keras wait for
each step's results, and it shows. What is done per step is a few additions; all
else is left to who asks.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, SupportsFloat, cast

# Where CallbackList is, once Keras 3 or tf_keras has been imported.
_HOMES: Final = ("keras.src.callbacks.callback_list", "tf_keras.src.callbacks")
# A program may begin to train as soon as these are imported.
_HERALDS: Final = frozenset({"tensorflow", "keras", "tf_keras"})
_LOOK_SECONDS: Final = 0.1

_MOST: Final = 10.0**15
_FIT: Final = "_tf_malleable_fit"


@dataclass(frozen=True)
class Steps:
    """Training steps; None for what is not known.

    Attributes:
        done: So far, since the process started.
        total: Done at its end, as far as known.
    """

    done: float | None = None
    total: float | None = None


class _CallbackList(Protocol):
    """Keras' own; "params" is what fit() has told it."""

    params: dict[str, Any] | None


@dataclass
class _Fit:
    """One call of fit(). Its own thread writes, the agent's reads.

    Attributes:
        params: Keras' own; "epochs" is where it stops, "steps" those of an epoch.
        before: Steps of the process before it.
        begun: The epoch, and this fit's steps before that epoch.
        done: This fit's steps.
        batch: Keras' number of the last one in the epoch, -1 before the first.
        length: Steps of the epoch before.
        over: It has ended, perhaps early.
    """

    params: dict[str, Any]
    before: int
    begun: tuple[int, int] = (0, 0)
    done: int = 0
    batch: int = -1
    length: int | None = None
    over: bool = False

    def begin_epoch(self, epoch: int) -> None:
        """Note that an epoch begins, the first one of a program is 0."""
        if self.batch >= 0:
            self.length = self.done - self.begun[1]
        self.begun = (epoch, self.done)
        self.batch = -1

    def end_batch(self, batch: int) -> int:
        """Note that steps up to number `batch` of the epoch are done; return how many.

        One call may stand for many steps (steps_per_execution), and the last one of
        an epoch for fewer than its number says.
        """
        known = self.params.get("steps")
        if known is not None and batch >= known:
            batch = known - 1
        if batch <= self.batch:  # A new epoch that was not announced.
            self.batch = -1
        new = batch - self.batch
        self.batch = batch
        self.done += new
        return new

    def total(self) -> int | None:
        """Return the process' steps at the end of this fit, None if unknown."""
        if self.over:
            return self.before + self.done
        epochs, length = self.params.get("epochs"), self.params.get("steps") or self.length
        if epochs is None or length is None:
            return None
        epoch, done = self.begun
        return self.before + done + (int(epochs) - epoch) * int(length)


@dataclass
class _Count:
    """What Keras has done in this process."""

    done: int = 0
    latest: _Fit | None = None
    watched: set[str] = field(default_factory=set)

    def fit_of(self, callbacks: _CallbackList) -> _Fit:
        """Return the fit that this list of callbacks is for."""
        fit = vars(callbacks).get(_FIT)
        if not isinstance(fit, _Fit) or fit.over:
            fit = _Fit(callbacks.params or {}, self.done)
            setattr(callbacks, _FIT, fit)
        self.latest = fit
        return fit


_count = _Count()
_told: Steps | None = None


def progress(step: float, total: float | None = None) -> None:
    """Tell the controller how far this program is; Keras' fit() is counted without.

    It costs about a microsecond, may be called from any thread, and does nothing
    where there is no controller.

    Args:
        step: Steps done since the program started, of whatever takes about the same
            time each.
        total: Steps it will have done at its end; None if that is not known.

    Raises:
        ValueError: One of them is not a number from 0 to 10**15.
    """
    global _told
    _told = Steps(_checked("step", step), None if total is None else _checked("total", total))


def _checked(name: str, value: object) -> float:
    number = math.nan
    if not isinstance(value, (bool, str, bytes, bytearray)):
        with suppress(TypeError, ValueError, OverflowError):
            number = float(cast(SupportsFloat, value))
    if not 0 <= number <= _MOST:
        raise ValueError(f"{name} must be a number from 0 to 10**15, not {value!r}")
    return number


def now() -> Steps:
    """Return how far the program is."""
    if _told is not None:
        return _told
    fit = _count.latest
    if fit is None:
        return Steps()
    total = None
    with suppress(TypeError, ValueError):  # Params of the program's own making.
        total = fit.total()
    return Steps(_count.done, None if total is None else max(total, _count.done))


def look_for_keras() -> float:
    """Start counting if Keras has been imported; return when to look again, in seconds.

    Nothing is imported here, and there is no hook: being called now and then will do.
    """
    for name in _HOMES:
        if name in _count.watched:
            continue
        callback_list = getattr(sys.modules.get(name), "CallbackList", None)
        if callback_list is not None:
            _count.watched.add(name)
            _watch(callback_list)
    if _count.watched or _HERALDS.isdisjoint(sys.modules):
        return math.inf
    return _LOOK_SECONDS


def _watch(callback_list: type) -> None:
    def begin_epoch(callbacks: _CallbackList, epoch: int) -> None:
        _count.fit_of(callbacks).begin_epoch(epoch)

    def end_batch(callbacks: _CallbackList, batch: int) -> None:
        _count.done += _count.fit_of(callbacks).end_batch(batch)

    def end(callbacks: _CallbackList, _: object) -> None:
        _count.fit_of(callbacks).over = True

    _call_first(callback_list, "on_epoch_begin", "epoch", begin_epoch)
    _call_first(callback_list, "on_train_batch_end", "batch", end_batch)
    _call_first(callback_list, "on_train_end", "logs", end)


def _call_first(owner: type, method: str, argument: str, note: Callable[..., None]) -> None:
    """Let a method of a class call `note` with the object and the method's first argument."""
    original = getattr(owner, method)

    @functools.wraps(original)
    def noting(self: object, *args: object, **named: object) -> object:
        with suppress(Exception):  # Training goes on, whatever a program has made of Keras.
            note(self, args[0] if args else named.get(argument))
        return original(self, *args, **named)

    setattr(owner, method, noting)
