# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Step of a training: whole in one function, or in parts that a mesh sums.

Both ways call the same traced functions of one shard, so that a step's bits do not depend on
which way was used.
"""

from __future__ import annotations

import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from keras.src import tree
from keras.src.optimizers.loss_scale_optimizer import LossScaleOptimizer

from tf_malleable.elastic.allreduce.reduction_tree import Node, children, combine, sums_of_run
from tf_malleable.elastic.training.checks import check_built
from tf_malleable.elastic.training.data import batch_shards
from tf_malleable.elastic.training.gradient_update import Apply
from tf_malleable.elastic.training.shard import APART, Changes, Rows, Shard, seed_states
from tf_malleable.elastic.training.sum_vector import SumVector, agrees, words_of_mark

if TYPE_CHECKING:
    from tf_malleable.elastic.mesh import Vector


class Step:
    """Traced functions of one model's step."""

    def __init__(self, model: Any, shards: int, spec: Any) -> None:
        """Build the model's variables and trace the functions.

        Args:
            model: A compiled Keras model.
            shards: Number of shards of each batch.
            spec: Nested tf.TypeSpec of batches.

        Raises:
            RefusedError: The model's step cannot be cut into shards.
        """
        self._shards = shards
        spec = tree.map_structure(_of_any_length, spec)
        _build(model, spec)
        self._shard = Shard(model, shards, spec)
        signature = tree.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype),
            self._shard.function.structured_outputs,
        )
        self._apply = Apply(model, shards, self._shard.changes, signature)
        self._vector = SumVector(signature)
        # Not constants: with those, the shards of the whole step would be optimised differently.
        salts = [batch_shards.salt(number) for number in range(shards)]
        self._salts = tf.Variable(salts, dtype=tf.int64, trainable=False)
        self._one = tf.Variable(1.0, trainable=False)
        self._nowhere = tf.zeros([self._vector.sparse, 2], tf.int32)
        self._add = tf.function(_added, experimental_attributes=APART, autograph=False)
        self._whole = tf.function(self._run_whole, autograph=False, reduce_retracing=True)
        # Batches of any length share one trace, unless a part of them is None.
        has_none = None in tf.nest.flatten(spec)
        places = tf.TensorSpec([self._vector.sparse, 2], tf.int32)
        number = tf.TensorSpec([], tf.int32)
        arguments = [spec, tf.TensorSpec([3], tf.int32), number, places, self._vector.tail]
        self._part = tf.function(
            self._run_part, input_signature=None if has_none else arguments, autograph=False
        )
        arguments = [spec, tf.TensorSpec([shards + 1], tf.int32)]
        self._rows = tf.function(
            self._run_rows, input_signature=None if has_none else arguments, autograph=False
        )
        self._side_by_side = ThreadPoolExecutor(os.cpu_count(), "tf_malleable_shard")
        self._finish = tf.function(
            self._run_finish, input_signature=[self._vector.body], autograph=False
        )

    @property
    def changes(self) -> Changes:
        """Variables and logs that a step changes."""
        return self._shard.changes

    def whole(self, iterator: Any) -> Any:
        """Take a step with the next batch; return its logs, a dict of tensors.

        Raises:
            tf.errors.OutOfRangeError: There is no next batch.
        """
        return self._whole(iterator)

    def parts(self, data: Any, start: int, stop: int, mark: int = 0) -> dict[Node, Vector]:
        """Return the sums at the nodes that cover shards [start, stop) of a batch.

        Args:
            data: The whole batch, nested tensors.
            start: First shard.
            stop: First shard after the range.
            mark: Fingerprint to send with each shard; 0 for none.
        """
        if start == stop:
            return {}
        sizes = batch_shards.sizes(examples(data), self._shards)
        rows, places = self._places(data, sizes)
        tail = words_of_mark(mark)

        def part(number: int) -> Vector:
            if not sizes[number]:
                return self._vector.empty(rows, tail)
            begin = sum(sizes[:number])
            ends = tf.constant([begin, begin + sizes[number], sum(sizes)])
            place, words = places[number], tf.constant(tail)
            found: Vector = self._part(data, ends, tf.constant(number), place, words)._numpy()
            return found

        # In parallel, as one shard may compute with one thread only.
        found = [*self._side_by_side.map(part, range(start, stop))]
        return sums_of_run(self._shards, start, found, np.add)

    def set_seeds(self, fit: int, epoch: int) -> None:
        """Set the states of seed generators for an epoch, as Keras does not save them.

        So a training that continues from a checkpoint draws what an undisturbed one does. With one
        shard, the states stay Keras's.
        """
        for variable in seed_states(self.changes) if self._shards > 1 else ():
            seed, _ = variable._value.numpy()
            variable._value.assign([seed, batch_shards.first_draw(fit, epoch)])

    def apply(self, total: Vector) -> Any:
        """Apply the sum of all shards; return the logs of the step, a dict of tensors."""
        return self._finish(self._vector.take(total))

    def agrees(self, total: Vector, mark: int) -> bool:
        """Return whether all shards come from a batch with this fingerprint; True if unknown.

        It is unknown for a sum that members of an earlier generation have completed.
        """
        return agrees(total, self._shards, mark)

    def warm_up(self, data: Any) -> None:
        """Run once, with a batch, all functions that a member may need; this changes variables."""
        parts = self.parts(data, 0, self._shards)
        self.apply(combine(self._shards, parts, np.add))

    def _places(self, data: Any, sizes: list[int]) -> tuple[Any, Any]:
        """Return how many rows each sparse gradient has, and where those of each shard belong.

        The second is, for each shard, what SumVector.pack() calls places.
        """
        if not self._vector.sparse:
            return (), [self._nowhere] * self._shards
        # Also the shards of other members, whose rows leave room for those of this one.
        found = self._rows(data, tf.constant(np.cumsum([0, *sizes], dtype=np.int32))).numpy()
        found *= np.asarray(sizes)[:, None] > 0
        before = np.cumsum(found, 0, dtype=np.int32) - found
        rows = found.sum(0, dtype=np.int32)
        return rows, [tf.constant(np.stack([each, rows], 1)) for each in before]

    def _run_whole(self, iterator: Any) -> Any:
        data = tree.map_structure(_or_none, iterator.get_next())
        if self._shards == 1:
            return self._apply(*self._shard(data, self._one, self._salts[0]))
        total = examples(data)
        if isinstance(total, int):
            return self._apply(*self._sum_of(data, total, may_be_empty=total < self._shards))
        return self._apply(
            *tf.cond(
                total >= self._shards,
                lambda: self._sum_of(data, total, may_be_empty=False),
                lambda: self._sum_of(data, total, may_be_empty=True),
            )
        )

    def _sum_of(self, data: Any, total: Any, may_be_empty: bool) -> Any:
        each, left = total // self._shards, total % self._shards
        parts: dict[Node, Any] = {}
        end: Any = 0
        for number in range(self._shards):
            begin = end
            end = begin + each + tf.cast(number < left, tf.int32)

            def run(begin: Any = begin, end: Any = end, number: int = number) -> Any:
                return self._of_shard(data, begin, end, total, number)

            parts[Node(number, number + 1)] = (
                tf.cond(end > begin, run, self._zeros) if may_be_empty else run()
            )
        return self._sum(Node(0, self._shards), parts)

    def _of_shard(self, data: Any, begin: Any, end: Any, total: Any, number: Any) -> Any:
        return self._shard(*self._arguments(data, begin, end, total, number))

    def _arguments(self, data: Any, begin: Any, end: Any, total: Any, number: Any) -> Any:
        piece = tree.map_structure(lambda leaf: _slice(leaf, begin, end), data)
        share = tf.cast(end - begin, tf.float32) / tf.cast(total, tf.float32) * self._one
        return piece, share, self._salts[number]

    def _zeros(self) -> Any:
        return tree.map_structure(
            lambda tensor: tf.zeros([size or 0 for size in tensor.shape], tensor.dtype),
            self._shard.function.structured_outputs,
        )

    def _sum(self, node: Node, parts: dict[Node, Any]) -> Any:
        if node in parts:
            return parts[node]
        left, right = children(node)
        return self._add(self._sum(left, parts), self._sum(right, parts))

    def _run_part(self, data: Any, ends: Any, number: Any, places: Any, tail: Any) -> Any:
        data = tree.map_structure(_or_none, data)
        results = self._of_shard(data, ends[0], ends[1], ends[2], number)
        return self._vector.pack(results, places, tail)

    def _run_rows(self, data: Any, edges: Any) -> Any:
        """Return the number of rows of each sparse gradient in each shard."""
        data = tree.map_structure(_or_none, data)
        found = []
        for number in range(self._shards):
            arguments = self._arguments(data, edges[number], edges[number + 1], edges[-1], number)
            indices = self._shard.indices(*arguments)
            found.append(tf.concat([tf.shape(each) for each in indices], 0))
        return tf.stack(found)

    def _run_finish(self, body: Any) -> Any:
        return self._apply(*self._vector.unpack(body))


def examples(data: Any) -> Any:
    """Return the number of examples of a batch: an int, or in a graph possibly a tensor."""
    first = next(leaf for leaf in tree.flatten(data) if leaf is not None)
    return first.shape[0] if first.shape[0] is not None else tf.shape(first)[0]


def fingerprint(data: Any) -> int:
    """Return a number below 2**32 that tells batches apart."""
    number = 0
    for leaf in tree.flatten(data):
        if isinstance(leaf, tf.Tensor) and leaf.dtype != tf.string:
            number = zlib.crc32(np.ascontiguousarray(leaf.numpy()).tobytes(), number)
    return number


def _added(left: Any, right: Any) -> Any:
    gradients = [_joined(*each) for each in zip(left[0], right[0], strict=True)]
    return gradients, *map(tf.add, left[1:], right[1:])


def _joined(left: Any, right: Any) -> Any:
    if isinstance(left, Rows):
        return Rows(*(tf.concat(pair, 0) for pair in zip(left, right, strict=True)))
    return tf.add(left, right)


def _slice(leaf: Any, begin: Any, end: Any) -> Any:
    if isinstance(leaf, tf.SparseTensor):
        rest = leaf.dense_shape[1:]
        start = tf.concat([[tf.cast(begin, tf.int64)], tf.zeros_like(rest)], 0)
        size = tf.concat([[tf.cast(end - begin, tf.int64)], rest], 0)
        return tf.sparse.slice(leaf, start, size)
    return leaf[begin:end]


def _or_none(leaf: Any) -> Any:
    """Return None for the Optional with which Keras's adapters represent it."""
    return None if isinstance(leaf, tf.experimental.Optional) else leaf


def _of_any_length(spec: Any) -> Any:
    if spec is None or "Optional" in type(spec).__name__:
        return None
    shape = spec.shape if spec.shape.rank is None else [None, *spec.shape[1:]]
    if isinstance(spec, tf.RaggedTensorSpec):
        return tf.RaggedTensorSpec(shape, spec.dtype, spec.ragged_rank, spec.row_splits_dtype)
    return type(spec)(shape, spec.dtype)


def _build(model: Any, spec: Any) -> None:
    """Create all variables of the model and its metrics, and perhaps those of its optimizer.

    Keras builds an optimizer while it traces the first update, so that what build() assigns is
    assigned in each step (ScheduleFreeAdamW). So does Apply, except that the loss is traced before
    it, and is to have the variable scale of a LossScaleOptimizer.
    """
    optimizer = model.optimizer
    # Not by setattr, which Keras watches.
    if not isinstance(optimizer, LossScaleOptimizer):
        vars(model)["optimizer"] = None
    try:
        model._symbolic_build(data_batch=spec)
    except Exception:  # What Keras cannot infer from shapes, a trace of the step finds out.
        vars(model)["optimizer"] = optimizer
        tf.function(model.train_step, autograph=False).get_concrete_function(spec)
    finally:
        vars(model)["optimizer"] = optimizer
    check_built(model)
