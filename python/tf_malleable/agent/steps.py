# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Training progress: reported by the program, or else counted from its libraries.

Keras calls its CallbackList after each batch of steps. This module wraps that class's
methods instead of adding a callback, because a callback is visible to the program and can
make Keras wait for the results of each step. PyTorch has a hook for all optimizers, which
plain loops, Lightning and others use alike; `boosting` counts rounds of trees. The cost per
step is a few additions; the rest is computed on request.
"""

from __future__ import annotations

import functools
import math
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, SupportsFloat, cast

from tf_malleable.agent import boosting
from tf_malleable.model.units import quoted

# The modules that define CallbackList, in Keras 3 and tf_keras.
_CALLBACK_MODULES: Final = ("keras.src.callbacks.callback_list", "tf_keras.src.callbacks")
# A program cannot train with Keras before it has imported one of these.
_TRAINING_MODULES: Final = frozenset({"tensorflow", "keras", "tf_keras"})
_OPTIMIZERS: Final = "torch.optim.optimizer"
_LOOK_SECONDS: Final = 0.1

_MOST: Final = 10.0**15
_FIT: Final = "_tf_malleable_fit"


@dataclass(frozen=True)
class Steps:
    """Training steps; None if unknown.

    Attributes:
        done: Steps done since the process started.
        total: Steps expected by the end of the process.
    """

    done: float | None = None
    total: float | None = None


class _CallbackList(Protocol):
    """Keras's CallbackList. fit() sets "params"."""

    params: dict[str, Any] | None


@dataclass
class _Fit:
    """One call of fit(). The training thread writes, the agent's thread reads.

    Attributes:
        params: Parameters of Keras; "epochs" is the number of the last epoch, "steps" the
            number of steps in each.
        before: Steps of the process before this fit.
        begun: Number of the current epoch, and steps of this fit before it.
        done: Steps of this fit.
        batch: Keras's number of the last batch in the epoch; -1 before the first.
        length: Steps in the previous epoch; None in the first.
        over: True once the fit has ended, perhaps early.
    """

    params: dict[str, Any]
    before: int
    begun: tuple[int, int] = (0, 0)
    done: int = 0
    batch: int = -1
    length: int | None = None
    over: bool = False

    def begin_epoch(self, epoch: int) -> None:
        """Record the start of an epoch; the first is 0."""
        if self.batch >= 0:
            self.length = self.done - self.begun[1]
        self.begun = (epoch, self.done)
        self.batch = -1

    def end_batch(self, batch: int) -> int:
        """Record the steps up to number `batch` of the epoch; return how many are new.

        One call may stand for many steps (steps_per_execution). The last call of an epoch
        may stand for fewer steps than its number suggests.
        """
        known = self.params.get("steps")
        if known is not None and batch >= known:
            batch = known - 1
        if batch <= self.batch:  # A new epoch, without a call of begin_epoch().
            self.batch = -1
        new = batch - self.batch
        self.batch = batch
        self.done += new
        return new

    def total(self) -> int | None:
        """Return the process's number of steps at the end of this fit; None if unknown."""
        if self.over:
            return self.before + self.done
        epochs, length = self.params.get("epochs"), self.params.get("steps") or self.length
        if epochs is None or length is None:
            return None
        epoch, done = self.begun
        return self.before + done + (int(epochs) - epoch) * int(length)


@dataclass
class _Count:
    """Steps counted in this process.

    Attributes:
        done: Steps of Keras.
        latest: Latest fit of Keras.
        optimized: Steps of PyTorch's optimizers.
        watched: Modules whose steps are counted.
    """

    done: int = 0
    latest: _Fit | None = None
    optimized: int = 0
    watched: set[str] = field(default_factory=set)

    def fit_of(self, callbacks: _CallbackList) -> _Fit:
        """Return the fit that this CallbackList belongs to."""
        fit = vars(callbacks).get(_FIT)
        if not isinstance(fit, _Fit) or fit.over:
            fit = _Fit(callbacks.params or {}, self.done)
            setattr(callbacks, _FIT, fit)
        self.latest = fit
        return fit


_count = _Count()
_told: Steps | None = None


def progress(step: float, total: float | None = None) -> None:
    """Report the program's progress.

    Not needed for Keras's fit(), PyTorch's optimizers, LightGBM and XGBoost, whose steps are
    counted anyway.

    A call takes about a microsecond, may come from any thread, and has no effect without
    a controller.

    Args:
        step: Steps done since the program started; each should take about the same time.
        total: Steps at the end of the program; None if unknown.

    Raises:
        ValueError: An argument is not a number from 0 to 10**15.
    """
    global _told
    _told = Steps(_checked("step", step), None if total is None else _checked("total", total))


def _checked(name: str, value: object) -> float:
    number = math.nan
    if not isinstance(value, (bool, str, bytes, bytearray)):
        with suppress(TypeError, ValueError, OverflowError):
            number = float(cast(SupportsFloat, value))
    if not 0 <= number <= _MOST:
        raise ValueError(f"{name} must be a number from 0 to 10**15, not {quoted(value)}")
    return number


def now() -> Steps:
    """Return the program's progress: as it reported it, or else as counted."""
    if _told is not None:
        return _told
    fit = _count.latest
    if fit is None:
        done, planned = boosting.rounds()
        return Steps(done, planned) if done else Steps(_count.optimized or None)
    total = None
    with suppress(TypeError, ValueError):  # The program may have set its own params.
        total = fit.total()
    return Steps(_count.done, None if total is None else max(total, _count.done))


def look_for_training() -> float:
    """Start counting steps of what has been imported; return after how many seconds to look again.

    This imports nothing and installs no import hook; the agent polls it.
    """
    _look_for_optimizers()
    for name in _CALLBACK_MODULES:
        if name in _count.watched:
            continue
        callback_list = getattr(sys.modules.get(name), "CallbackList", None)
        if callback_list is not None:
            _count.watched.add(name)
            _watch(callback_list)
    if _count.watched.intersection(_CALLBACK_MODULES) or _TRAINING_MODULES.isdisjoint(sys.modules):
        return math.inf
    return _LOOK_SECONDS


def _look_for_optimizers() -> None:
    optimizers = sys.modules.get(_OPTIMIZERS)
    compiler = sys.modules.get("torch.compiler")
    register = getattr(optimizers, "register_optimizer_step_post_hook", None)
    is_compiling = getattr(compiler, "is_compiling", None)
    if _OPTIMIZERS in _count.watched or register is None or is_compiling is None:
        return

    def note(*_: object) -> None:
        # A step that torch.compile() is to compile must not depend on a count, which changes.
        if not is_compiling():
            _count.optimized += 1

    _count.watched.add(_OPTIMIZERS)
    with suppress(Exception):  # Counting must never break training.
        register(note)


def _watch(callback_list: type) -> None:
    def begin_epoch(callbacks: _CallbackList, epoch: int) -> None:
        _count.fit_of(callbacks).begin_epoch(epoch)

    def end_batch(callbacks: _CallbackList, batch: int) -> None:
        # Not in one statement, which would lose another thread's steps between read and write.
        new = _count.fit_of(callbacks).end_batch(batch)
        _count.done += new

    def end(callbacks: _CallbackList, _: object) -> None:
        _count.fit_of(callbacks).over = True

    _call_first(callback_list, "on_epoch_begin", "epoch", begin_epoch)
    _call_first(callback_list, "on_train_batch_end", "batch", end_batch)
    _call_first(callback_list, "on_train_end", "logs", end)


def _call_first(owner: type, method: str, argument: str, note: Callable[..., None]) -> None:
    """Wrap a method to first call `note` with the object and the method's first argument."""
    original = getattr(owner, method)

    @functools.wraps(original)
    def noting(self: object, *args: object, **named: object) -> object:
        with suppress(Exception):  # Counting must never break training.
            note(self, args[0] if args else named.get(argument))
        return original(self, *args, **named)

    setattr(owner, method, noting)
