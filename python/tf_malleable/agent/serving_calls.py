# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Requests of programs that measure none: predict() of Keras, and tf.functions and signatures.

Their classes' methods are wrapped once the modules have been imported. What is called inside of a
training, or of another request, is no request; nor is a tf.function that changes variables, as one
step of a training does.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast
from weakref import WeakKeyDictionary

from tf_malleable.agent import request_latency, steps

_KERAS: Final = (
    ("keras.src.backend.tensorflow.trainer", "TensorFlowTrainer"),
    ("tf_keras.src.engine.training", "Model"),
)
_SERVING: Final = ("predict", "predict_on_batch")
_TRAINING: Final = ("fit", "evaluate", "train_on_batch", "test_on_batch")
_FUNCTIONS: Final = (
    ("tensorflow.python.eager.polymorphic_function.polymorphic_function", "Function"),
    ("tensorflow.python.eager.polymorphic_function.concrete_function", "ConcreteFunction"),
)
# Beginnings of the names of ops that change variables.
_CHANGING: Final = ("Assign", "Resource")
_READING: Final = ("ResourceGather",)

_wrapped: set[str] = set()


def look() -> None:
    """Wrap the methods of classes whose modules have been imported since the last look."""
    for module, name in _KERAS:
        owner = _new(module, name)
        for method in _SERVING if owner is not None else ():
            _wrap(owner, method, _as_request)
        for method in _TRAINING if owner is not None else ():
            _wrap(owner, method, _as_training)
    for module, name in _FUNCTIONS:
        owner = _new(module, name)
        if owner is not None:
            _wrap(owner, "__call__", _as_function)


def _new(module: str, name: str) -> object:
    owner = None if module in _wrapped else getattr(sys.modules.get(module), name, None)
    if owner is not None:
        _wrapped.add(module)
    return owner


def _wrap(owner: object, method: str, wrap: Callable[[Callable[..., Any]], object]) -> None:
    original = getattr(owner, method, None)
    if original is not None:
        setattr(owner, method, functools.wraps(original)(wrap(original)))  # type: ignore[arg-type]


def _as_training(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: object, **named: object) -> object:
        token = request_latency.inside.set(True)
        try:
            return original(*args, **named)
        finally:
            request_latency.inside.reset(token)

    return call


def _as_request(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: object, **named: object) -> object:
        key = request_latency.begin_unasked()
        if key is None:
            return original(*args, **named)
        token = request_latency.inside.set(True)
        try:
            return original(*args, **named)
        finally:
            request_latency.inside.reset(token)
            request_latency.end_unasked(key)

    return call


def _as_function(original: Callable[..., Any]) -> Callable[..., Any]:
    def call(function: object, *args: object, **named: object) -> object:
        # A program that reports steps is a training, whatever functions it consists of.
        is_step = steps.now().done is not None or not _is_eager() or _changing.get(function, False)
        key = None if is_step else request_latency.begin_unasked()
        if key is None:
            return original(function, *args, **named)
        token = request_latency.inside.set(True)
        try:
            return original(function, *args, **named)
        finally:
            request_latency.inside.reset(token)
            request_latency.end_unasked(key, counts=not _changes_variables(function))

    return call


_changing: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


def _is_eager() -> bool:
    """Return whether ops run at once, which they do not while a function is traced."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return context is None or bool(context.executing_eagerly())


def _changes_variables(function: object) -> bool:
    """Return whether a function changes variables; found out after its first call."""
    found = _changing.get(function)
    if found is None:
        found = False
        with suppress(Exception):  # TensorFlow's own affairs must never break the program.
            cache = getattr(function, "_function_cache", None)
            traced = [function] if cache is None else cache.values()
            found = any(_has_changing_op(each) for each in traced)
        with suppress(TypeError):
            _changing[function] = found
    return found


def _has_changing_op(concrete: object) -> bool:
    definition = cast("Any", concrete).graph.as_graph_def()
    nodes = [*definition.node]
    for each in definition.library.function:
        nodes += each.node_def
    return any(node.op.startswith(_CHANGING) and not node.op.startswith(_READING) for node in nodes)
