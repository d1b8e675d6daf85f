# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Application of a step's sums to the model: optimizer, statistics, metrics, seeds."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from tf_malleable.elastic.training.data.batch_shards import SCALE
from tf_malleable.elastic.training.shard import APART, Changes, Rows


class Apply:
    """Traced function that applies the sums of a step."""

    def __init__(self, model: Any, shards: int, changes: Changes, signature: Any) -> None:
        """Trace the function.

        Args:
            model: A compiled and built Keras model.
            shards: Number of shards of each batch.
            changes: Variables and logs that a step changes.
            signature: tf.TensorSpecs of gradients, floats and counts, as a shard returns them.
        """
        self._model = model
        self._is_only = shards == 1
        self._changes = changes
        function = tf.function(
            self._run,
            input_signature=signature,
            jit_compile=model.jit_compile or None,
            experimental_attributes=APART,
            autograph=False,
        )
        self.function = function.get_concrete_function()

    def __call__(self, gradients: Any, floats: Any, counts: Any) -> Any:
        """Apply the sums; return the logs of the step, a dict of tensors."""
        return self.function(gradients, floats, counts)

    def _run(self, gradients: Any, floats: Any, counts: Any) -> Any:
        model, changes = self._model, self._changes
        if not self._is_only:
            floats = floats * (1 / SCALE)
        known = {
            id(variable): self._for_optimizer(gradient, variable)
            for gradient, variable in zip(gradients, changes.weights, strict=True)
        }
        # Also those without: Keras warns about them, and some optimizers count them.
        model.optimizer.apply(
            [known.get(id(variable)) for variable in changes.updated], changes.updated
        )
        pieces = iter(
            _split(floats, [*changes.means, *(() for _ in changes.logs), *changes.metrics])
        )
        for variable in changes.means:
            variable.assign(tf.cast(next(pieces), variable.dtype))
        means = {name: next(pieces) for name in changes.logs}
        for variable in changes.metrics:
            variable.assign_add(tf.cast(next(pieces), variable.dtype))
        for variable, difference in zip(
            changes.counts, _split(counts, changes.counts), strict=True
        ):
            variable.assign(
                tf.cast(tf.cast(variable._value, tf.int64) + difference, variable.dtype)
            )
        if changes.returned is None:
            return {}
        logs = model.get_metrics_result() | means
        return {name: logs[name] for name in changes.returned}

    def _for_optimizer(self, gradient: Any, variable: Any) -> Any:
        """Return a gradient as Keras would have it: a tensor or tf.IndexedSlices."""
        is_sparse = isinstance(gradient, Rows)
        values = gradient.values if is_sparse else gradient
        if not self._is_only:
            values = values * (1 / SCALE)
        values = tf.cast(values, variable.dtype)
        if not is_sparse:
            return values
        shape = tf.constant(tuple(variable.shape), gradient.indices.dtype)
        return tf.IndexedSlices(values, gradient.indices, shape)


def _split(vector: Any, variables: list[Any]) -> list[Any]:
    shapes = [tuple(getattr(variable, "shape", variable)) for variable in variables]
    lengths = [int(tf.TensorShape(shape).num_elements()) for shape in shapes]
    if not lengths:
        return []
    return [
        tf.reshape(piece, shape)
        for piece, shape in zip(tf.split(vector, lengths), shapes, strict=True)
    ]
