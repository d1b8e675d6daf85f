# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rounds of trainings with LightGBM and XGBoost, counted by a callback of theirs.

Both call callbacks after each round, but have no hook for all trainings of a program: so their
train() and cv() get a callback more. scikit-learn's classes of theirs call the same functions.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tf_malleable.runtime.post_import_hook import after_import

# Before other callbacks, one of which may end the training.
_FIRST: Final = -1000


@dataclass
class _Rounds:
    """Rounds of this process; `planned` counts those of the trainings begun so far."""

    done: int = 0
    planned: int = 0


@dataclass
class _Training:
    """One training."""

    done: int = 0
    planned: int = 0

    def end_round(self, planned: int) -> None:
        """Count a round of a training with this many."""
        if not self.done:
            self.planned = planned
            _rounds.planned += planned
        self.done += 1
        _rounds.done += 1

    def end(self) -> None:
        """Plan no more rounds; there may have been fewer."""
        _rounds.planned += self.done - self.planned


_rounds = _Rounds()


def rounds() -> tuple[int, int]:
    """Return how many rounds this process has done, and how many the trainings begun have."""
    return _rounds.done, _rounds.planned


@functools.cache  # A second agent must not count them twice.
def count_rounds() -> None:
    """Count the rounds of each training from now on."""
    for library, module, callback in (
        ("lightgbm", "lightgbm.engine", _lightgbm_callback),
        ("xgboost", "xgboost.training", _xgboost_callback),
    ):
        after_import(module, functools.partial(_watch, library, module, callback))


class _LightGBMCallbackEnv(Protocol):
    begin_iteration: int
    end_iteration: int


def _lightgbm_callback(training: _Training, _: int) -> Callable[[_LightGBMCallbackEnv], None]:
    def note(env: _LightGBMCallbackEnv) -> None:
        training.end_round(env.end_iteration - env.begin_iteration)

    note.order = _FIRST  # type: ignore[attr-defined]  # As LightGBM's own callbacks say theirs.
    return note


def _xgboost_callback(training: _Training, planned: int) -> object:
    base: Any = sys.modules["xgboost.callback"].TrainingCallback

    class Note(base):  # type: ignore[misc]
        def after_iteration(self, *_: object) -> bool:
            training.end_round(planned)
            return False

    return Note()


def _watch(library: str, module: str, callback: Callable[[_Training, int], object]) -> None:
    with suppress(Exception):  # Counting must never break training.
        for name in ("train", "cv"):
            original = getattr(sys.modules[module], name)
            counting = _counting(original, callback)
            for holder in (module, library, f"{library}.sklearn"):
                if getattr(sys.modules.get(holder), name, None) is original:
                    setattr(sys.modules[holder], name, counting)


def _counting(
    original: Callable[..., object], callback: Callable[[_Training, int], object]
) -> Callable[..., object]:
    """Return a function that gives `original` a callback more."""
    signature = inspect.signature(original)
    usual = signature.parameters["num_boost_round"].default

    @functools.wraps(original)
    def counting(*args: object, **named: object) -> object:
        training = _Training()
        with suppress(Exception):
            bound = signature.bind(*args, **named)
            mine = callback(training, bound.arguments.get("num_boost_round", usual))
            bound.arguments["callbacks"] = [mine, *(bound.arguments.get("callbacks") or ())]
            args, named = bound.args, bound.kwargs
        try:
            return original(*args, **named)
        finally:
            training.end()

    return counting
