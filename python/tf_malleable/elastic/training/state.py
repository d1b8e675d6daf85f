# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""State of a training: all values that a newcomer needs, as bytes and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tf_malleable.elastic.training.checks import RefusedError


def variables(model: Any, counted: Sequence[Any]) -> list[Any]:
    """Return the Keras variables of a training, each once, in an order that the script determines.

    Args:
        model: A built Keras model with a built optimizer.
        counted: Variables that the model's step changes; some of them may be global.
    """
    found = [*model.variables, *model.optimizer.variables, *model.metrics_variables, *counted]
    return list({id(variable): variable for variable in found}.values())


def shape_of(value: Any) -> str:
    """Return type and shape of a variable or array, such as "float32[3, 4]"."""
    return f"{np.dtype(tf.as_dtype(value.dtype).as_numpy_dtype).name}{list(value.shape)}"


def arrays(of: Sequence[Any]) -> list[Any]:
    """Return the values as arrays that do not change.

    They are TensorFlow's own memory: while one is in use, an assignment writes elsewhere.
    """
    return [variable._value.read_value()._numpy() for variable in of]


def as_bytes(array: Any) -> memoryview:
    """Return the bytes of an array."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def from_bytes(buffers: Sequence[Any], shapes: Sequence[str]) -> list[Any]:
    """Return copies of arrays from their bytes.

    Args:
        buffers: Bytes-like objects.
        shapes: Types and shapes, as returned by shape_of().

    Raises:
        RefusedError: A buffer has another length.
    """
    found = []
    for buffer, said in zip(buffers, shapes, strict=True):
        name, _, dimensions = said.partition("[")
        shape = tuple(int(size) for size in dimensions.rstrip("]").split(",") if size.strip())
        dtype = tf.as_dtype(name).as_numpy_dtype
        try:
            found.append(np.frombuffer(buffer, dtype).reshape(shape).copy())
        except ValueError:
            raise RefusedError(f"the state that came has not the length of {said}") from None
    return found


def assign(to: Sequence[Any], values: Sequence[Any]) -> None:
    """Set variables to values."""
    for variable, value in zip(to, values, strict=True):
        variable._value.assign(value)


def kept_by(callbacks: Sequence[Any]) -> list[Any]:
    """Return the weights that callbacks keep, such as the best ones of EarlyStopping."""
    kept: list[Any] = []
    for callback in callbacks:
        kept += _best_of(callback)
    return [np.asarray(array) for array in kept]


def give_back(callbacks: Sequence[Any], kept: Sequence[Any], counts: Sequence[int]) -> None:
    """Restore in the callbacks what kept_by() has returned, `counts` arrays for each."""
    rest = list(kept)
    for callback, count in zip(callbacks, counts, strict=True):
        if hasattr(callback, "best_weights"):
            callback.best_weights = rest[:count] or None
        del rest[:count]


def _best_of(callback: Any) -> list[Any]:
    best = getattr(callback, "best_weights", None)
    return list(best) if isinstance(best, list) else []
