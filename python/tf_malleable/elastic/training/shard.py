# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shard: a train step on one shard, as a pure function whose results are summed.

The model's own train_step() runs in a ShardScope, with optimizer.apply() replaced by a function
that notes the gradients. So the shard's function changes nothing, and its results are sums over
examples or can be turned into such: gradients, differences of metrics, moving statistics, logs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import tensorflow as tf
from keras.src.backend.tensorflow.trainer import TensorFlowTrainer
from keras.src.losses import loss as loss_module
from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer

from tf_malleable.elastic.training.checks import RefusedError, check_graph
from tf_malleable.elastic.training.data.batch_shards import SCALE
from tf_malleable.elastic.training.function_part import import_part
from tf_malleable.elastic.training.variable_scope import ShardScope, is_seed_state

# A function with this attribute stays one of its own in every graph that calls it. Merged into
# its caller, it would be optimised together with it, differently in each, with other bits.
APART = {"_noinline": True}


class Rows(NamedTuple):
    """Rows of a sparse gradient, as of tf.IndexedSlices, in the order of the examples.

    A row of the weight may occur several times. Keras's optimizers do not add up such rows before
    they square them, so nor does a sum over shards: it has the rows of all shards.

    Attributes:
        values: One row for each index, a float32 tensor.
        indices: Rows of the weight, a tensor of any type of whole numbers.
    """

    values: Any
    indices: Any


@dataclass
class Changes:
    """Variables and logs that a step changes, in the order in which a shard returns them.

    Attributes:
        weights: Variables with a gradient.
        updated: Variables that the optimizer is given, with a gradient or without.
        means: Other float variables, such as moving statistics, which become the mean over
            shards, weighted by examples.
        metrics: Float variables of metrics, which change by the sum of differences.
        logs: Names in the result of train_step() that belong to no metric; their values become
            the mean over shards.
        counts: Integer variables, which change by the sum of differences if they belong to
            metrics, and by the difference of shard 0 otherwise.
        returned: Names in the result of train_step(); None if the result is no dict.
    """

    weights: list[Any] = field(default_factory=list)
    updated: list[Any] = field(default_factory=list)
    means: list[Any] = field(default_factory=list)
    metrics: list[Any] = field(default_factory=list)
    logs: list[str] = field(default_factory=list)
    counts: list[Any] = field(default_factory=list)
    returned: list[str] | None = None


class Shard:
    """Traced function of one shard."""

    def __init__(self, model: Any, shards: int, spec: Any) -> None:
        """Trace the function.

        Args:
            model: A compiled and built Keras model.
            shards: Number of shards of each batch.
            spec: Nested tf.TensorSpec of one shard's examples.

        Raises:
            RefusedError: The train step has results that cannot be summed over shards.
        """
        self._model = model
        self._is_only = shards == 1
        # Keras's own step scales its loss by a scalar from the optimizer. In other steps, the
        # gradients are scaled instead.
        self._scales_loss = type(model).train_step is TensorFlowTrainer.train_step and not (
            isinstance(model.optimizer, LossScaleOptimizer)
        )
        self.changes = Changes()
        function = tf.function(
            self._run,
            input_signature=[
                spec,
                tf.TensorSpec((), tf.float32),
                tf.TensorSpec((), tf.int64),
            ],
            jit_compile=model.jit_compile or None,
            experimental_attributes=APART,
            autograph=False,
        )
        self.function = function.get_concrete_function()
        check_graph(self.function, type(model).__name__)

    def __call__(self, data: Any, share: Any, salt: Any) -> Any:
        """Return gradients, one vector of other floats, and one of whole numbers.

        Args:
            data: Nested tensors of the shard's examples.
            share: The shard's share of the batch's examples, a float32 scalar.
            salt: The shard's salt, an int64 scalar.
        """
        return self.function(data, share, salt)

    def indices(self, data: Any, share: Any, salt: Any) -> list[Any]:
        """Return the indices of each sparse gradient, in a graph; arguments as for a call.

        Nothing is computed on which they do not depend, which for an embedding is nearly all.
        """
        gradients = self.function.structured_outputs[0]
        outputs = iter(self.function.outputs)
        flat = [
            Rows(next(outputs), next(outputs)) if isinstance(each, Rows) else next(outputs)
            for each in gradients
        ]
        wanted = [each.indices for each in flat if isinstance(each, Rows)]
        return import_part(self.function, wanted, (data, share, salt))

    def _run(self, data: Any, share: Any, salt: Any) -> Any:
        model, optimizer = self._model, self._model.optimizer
        weight = None if self._is_only else share * SCALE
        scope = ShardScope(model.metrics_variables, salt)
        with (
            scope,
            _noting(optimizer, weight if self._scales_loss else None) as noted,
            _whole_sums(None if self._is_only else share),
        ):
            returned = model.train_step(data)
        if len(noted) != 1:
            raise RefusedError(
                f"elastic training needs a train step that applies gradients once;"
                f" that of {type(model).__name__} does so {len(noted)} times"
            )
        changes = self.changes = Changes()
        gradients = []
        for gradient, variable in zip(*noted[0], strict=True):
            changes.updated.append(variable)
            if gradient is None:
                continue
            if variable.overwrite_with_gradient:
                raise RefusedError(
                    f"elastic training cannot sum {variable.path}, which is replaced by its"
                    " gradient (8-bit floats)"
                )
            changes.weights.append(variable)
            own_weight = None if self._scales_loss else weight
            gradients.append(_gradient(gradient, variable, own_weight, self._is_only))
        floats = self._floats(scope, returned, weight)
        return gradients, floats, self._counts(scope, salt)

    def _floats(self, scope: ShardScope, returned: Any, weight: Any) -> Any:
        changes, means, sums = self.changes, [], []
        for variable in scope.changed.values():
            if "float" not in variable.dtype:
                continue
            if scope.is_of_metrics(variable):
                changes.metrics.append(variable)
                sums.append(scope.difference(variable))
            elif variable.trainable:
                raise RefusedError(
                    f"elastic training cannot sum {variable.path}, a weight that the train"
                    " step sets beside the optimizer"
                )
            else:
                changes.means.append(variable)
                means.append(scope.value(variable))
        means += self._logs(returned)
        flat_means, flat_sums = _flat(means, tf.float32), _flat(sums, tf.float32)
        if weight is not None:
            flat_means, flat_sums = flat_means * weight, flat_sums * SCALE
        return tf.concat([flat_means, flat_sums], 0)

    def _logs(self, returned: Any) -> list[Any]:
        """Return the values to average, which are not results of metrics."""
        if not isinstance(returned, dict):
            return []
        self.changes.returned = list(returned)
        of_metrics = self._model.get_metrics_result()
        others = {name: value for name, value in returned.items() if name not in of_metrics}
        values = {name: tf.convert_to_tensor(value) for name, value in others.items()}
        for name, value in values.items():
            if value.shape.rank != 0 or not value.dtype.is_floating:
                raise RefusedError(
                    f"elastic training can only average float scalars, but the train step of"
                    f" {type(self._model).__name__} returns {name!r} as {value.dtype.name}"
                    f" of shape {value.shape}"
                )
        self.changes.logs = list(values)
        return list(values.values())

    def _counts(self, scope: ShardScope, salt: Any) -> Any:
        differences = []
        is_first = tf.cast(tf.equal(salt, 0), tf.int64)
        for variable in scope.changed.values():
            if "float" in variable.dtype:
                continue
            if "int" not in variable.dtype:
                raise RefusedError(
                    f"elastic training cannot sum {variable.path} of type {variable.dtype}"
                )
            self.changes.counts.append(variable)
            difference = tf.cast(scope.difference(variable), tf.int64)
            if not scope.is_of_metrics(variable):
                difference = difference * is_first
            differences.append(difference)
        return _flat(differences, tf.int64)


def _gradient(gradient: Any, variable: Any, weight: Any, is_only: bool) -> Any:
    """Return the gradient of a variable as float32, a tensor or Rows, times `weight`."""
    is_sparse = isinstance(gradient, tf.IndexedSlices)
    values = tf.cast(gradient.values if is_sparse else gradient, tf.float32)
    # Nothing but the variable knows the shape of some gradients, as that of a tf.while_loop.
    values.set_shape([None, *variable.shape[1:]] if is_sparse else variable.shape)
    if weight is not None:
        values = values * weight
    if not is_sparse:
        return values
    if not is_only:
        # In a mesh, each value is added to zeros, which makes 0 of -0.
        values = tf.where(tf.equal(values, 0), tf.zeros_like(values), values)
    return Rows(values, gradient.indices)


def seed_states(changes: Changes) -> list[Any]:
    """Return the states of seed generators that a step draws from."""
    return [variable for variable in changes.counts if is_seed_state(variable)]


def _flat(tensors: list[Any], dtype: Any) -> Any:
    flat = [tf.reshape(tf.cast(tensor, dtype), [-1]) for tensor in tensors]
    return tf.concat(flat, 0) if flat else tf.zeros([0], dtype)


@contextmanager
def _noting(optimizer: Any, weight: Any) -> Iterator[list[tuple[Any, Any]]]:
    """Note gradients and variables instead of applying them; scale the loss by `weight`."""
    noted: list[tuple[Any, Any]] = []
    before = {name: vars(optimizer)[name] for name in _REPLACED if name in vars(optimizer)}
    own_scale = optimizer.scale_loss

    def apply(grads: Any, trainable_variables: Any = None) -> None:
        variables = trainable_variables or optimizer._trainable_variables
        noted.append((list(grads), list(variables)))

    def scale_loss(loss: Any) -> Any:
        loss = own_scale(loss)
        return loss if weight is None else loss * tf.cast(weight, loss.dtype)

    # Not by setattr, which Keras watches.
    vars(optimizer).update(apply=apply, scale_loss=scale_loss)
    try:
        yield noted
    finally:
        for name in _REPLACED:
            del vars(optimizer)[name]
        vars(optimizer).update(before)


_REPLACED = ("apply", "scale_loss")


@contextmanager
def _whole_sums(share: Any) -> Iterator[None]:
    """Keep Keras's losses that are sums over a batch from becoming means over shards."""
    original = loss_module.reduce_weighted_values

    def reduce(values: Any, *args: Any, **named: Any) -> Any:
        reduced = original(values, *args, **named)
        reduction = named.get("reduction", "sum_over_batch_size")
        return reduced / tf.cast(share, reduced.dtype) if reduction == "sum" else reduced

    if share is not None:
        loss_module.reduce_weighted_values = reduce
    try:
        yield
    finally:
        loss_module.reduce_weighted_values = original
