# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One step of the training: whole in one function, or in parts that a mesh sums.

Both call the same traced functions of one shard, so that a step's bits do not depend on
which was used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import tensorflow as tf
from keras.src import tree

from tf_malleable.elastic.training import cutting
from tf_malleable.elastic.training.apply import Apply
from tf_malleable.elastic.training.shard import APART, Changes, Shard, shares_of
from tf_malleable.elastic.tree import Node, children, combine, cover

if TYPE_CHECKING:
    from tf_malleable.elastic.mesh import Vector

_WORD_BITS = 16
_WORDS = 4


class Step:
    """The functions of one model's step."""

    def __init__(self, model: Any, shards: int, data: Any) -> None:  # noqa: ANN401
        """Build and trace them.

        Args:
            model: A compiled Keras model.
            shards: Into how many each batch is cut.
            data: A batch, nested tensors.

        Raises:
            RefusedError: The model's step cannot be cut into shards.
        """
        self._shards = shards
        _build(model, data)
        self._shard = Shard(model, shards, tree.map_structure(_spec, data))
        gradients, floats, counts = self._shard.function.structured_outputs
        signature = tree.map_structure(
            lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype), (gradients, floats, counts)
        )
        self._apply = Apply(model, shards, self._shard.changes, signature)
        self._shapes = [spec.shape for spec in signature[0]]
        self._lengths = [int(shape.num_elements()) for shape in self._shapes]
        self._floats, self._counts = signature[1].shape[0], signature[2].shape[0]
        self._salts = np.asarray([cutting.salt(n) for n in range(shards)], np.int64)
        self._add = tf.function(_added, experimental_attributes=APART, autograph=False)
        self._whole = tf.function(self._run_whole, autograph=False, reduce_retracing=True)
        self._part = tf.function(self._run_part, autograph=False, reduce_retracing=True)
        self._finish = tf.function(self._run_finish, autograph=False)

    @property
    def changes(self) -> Changes:
        """What a step changes."""
        return self._shard.changes

    @property
    def length(self) -> int:
        """How many floats a part has."""
        return sum(self._lengths) + int(self._floats) + _WORDS * int(self._counts)

    def whole(self, data: Any) -> Any:  # noqa: ANN401
        """Take a step with all shards of a batch; return its logs, a dict of tensors."""
        sizes = self._sizes(data)
        if not all(sizes):
            parts = {Node(n, n + 1): self.part(data, n) for n in range(self._shards)}
            return self.apply(combine(self._shards, parts))
        return self._whole(data, np.asarray(sizes, np.int32), shares_of(sizes), self._salts)

    def parts(self, data: Any, start: int, stop: int) -> dict[Node, Vector]:  # noqa: ANN401
        """Return the sums at the nodes that cover shards [start, stop) of a batch."""
        shards = {Node(n, n + 1): self.part(data, n) for n in range(start, stop)}
        return {
            node: _sum_below(node, shards) for node in cover(self._shards, start, stop)
        }

    def part(self, data: Any, number: int) -> Vector:  # noqa: ANN401
        """Return what is to be summed of one shard of a batch."""
        sizes = self._sizes(data)
        if not sizes[number]:
            return np.zeros(self.length, np.float32)
        begin = sum(sizes[:number])
        part: Vector = self._part(
            data,
            np.int32(begin),
            np.int32(begin + sizes[number]),
            shares_of(sizes)[number],
            self._salts[number],
        ).numpy()
        return part

    def apply(self, total: Vector) -> Any:  # noqa: ANN401
        """Apply the sum of all shards; return the logs of the step, a dict of tensors."""
        return self._finish(tf.convert_to_tensor(total))

    def _sizes(self, data: Any) -> list[int]:  # noqa: ANN401
        return cutting.sizes(examples(data), self._shards)

    def _run_whole(self, data: Any, sizes: Any, shares: Any, salts: Any) -> Any:  # noqa: ANN401
        if self._shards == 1:
            return self._apply(*self._shard(data, shares[0], salts[0]))
        flat = [tf.split(leaf, sizes, num=self._shards) for leaf in tree.flatten(data)]
        parts = {}
        for number in range(self._shards):
            piece = tree.pack_sequence_as(data, [leaf[number] for leaf in flat])
            parts[Node(number, number + 1)] = self._shard(piece, shares[number], salts[number])
        return self._apply(*self._sum(Node(0, self._shards), parts))

    def _sum(self, node: Node, parts: dict[Node, Any]) -> Any:  # noqa: ANN401
        if node in parts:
            return parts[node]
        left, right = children(node)
        return self._add(self._sum(left, parts), self._sum(right, parts))

    def _run_part(self, data: Any, begin: Any, end: Any, share: Any, salt: Any) -> Any:  # noqa: ANN401
        piece = tree.map_structure(lambda leaf: leaf[begin:end], data)
        gradients, floats, counts = self._shard(piece, share, salt)
        flat = [tf.reshape(gradient, [-1]) for gradient in gradients]
        shifted = [
            tf.bitwise.bitwise_and(tf.bitwise.right_shift(counts, tf.constant(bits, tf.int64)), 0xFFFF)
            for bits in range(0, _WORD_BITS * _WORDS, _WORD_BITS)
        ]
        words = tf.cast(tf.concat(shifted, 0), tf.float32)
        return tf.concat([*flat, floats, words], 0)

    def _run_finish(self, total: Any) -> Any:  # noqa: ANN401
        lengths = [*self._lengths, self._floats, _WORDS * self._counts]
        *flat, floats, words = tf.split(total, lengths)
        gradients = [
            tf.reshape(gradient, shape) for gradient, shape in zip(flat, self._shapes, strict=True)
        ]
        counts = tf.zeros([self._counts], tf.int64)
        for number, word in enumerate(tf.split(words, _WORDS)):
            counts += tf.bitwise.left_shift(
                tf.cast(word, tf.int64), tf.constant(_WORD_BITS * number, tf.int64)
            )
        return self._apply(gradients, floats, counts)


def examples(data: Any) -> int:  # noqa: ANN401
    """Return how many examples a batch has."""
    return int(next(leaf for leaf in tree.flatten(data) if leaf is not None).shape[0])


def _added(left: Any, right: Any) -> Any:  # noqa: ANN401
    return tree.map_structure(tf.add, left, right)


def _sum_below(node: Node, shards: dict[Node, Vector]) -> Vector:
    if node in shards:
        return shards[node]
    left, right = children(node)
    total: Vector = _sum_below(left, shards) + _sum_below(right, shards)
    return total


def _spec(leaf: Any) -> Any:  # noqa: ANN401
    return tf.TensorSpec([None, *leaf.shape[1:]], leaf.dtype)


def _build(model: Any, data: Any) -> None:  # noqa: ANN401
    """Make all variables of the model, its metrics and its optimizer."""
    model._symbolic_build(data_batch=data)
    if not model.optimizer.built:
        model.optimizer.build(model.trainable_variables)
