# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Vector of float32 words that a mesh sums: a shard's results as words, and the sum's back.

It begins with dense gradients, other floats and whole numbers, of constant length. The rows of
each sparse gradient follow: every shard has a place of its own among them, with zeros elsewhere,
so that the sum has the rows of all shards, in the order of the examples. Then comes the number of
rows of each, and a fingerprint of the batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import tensorflow as tf

from tf_malleable.elastic.training.shard import Rows

if TYPE_CHECKING:
    from tf_malleable.elastic.mesh import Vector

# Whole numbers travel as float32 words of this many bits, which add up without rounding.
_BITS: Final = 16
_WORDS: Final = 4
_MASK: Final = (1 << _BITS) - 1
# An index is in one shard only, so that its words add up to no more than they are.
_INDEX_BITS: Final = 24
_INDEX_WORDS: Final = 2
# The last words have a fingerprint of the batch.
_TAIL: Final = 2


class SumVector:
    """Layout of the vector of one model."""

    def __init__(self, signature: Any) -> None:
        """Lay out the vector.

        Args:
            signature: tf.TensorSpecs of gradients, floats and counts, as a shard returns them.
        """
        gradients, floats, counts = signature
        self._gradients = gradients
        dense = [each.shape for each in gradients if not isinstance(each, Rows)]
        self._lengths = [int(shape.num_elements()) for shape in dense]
        self._lengths += [int(floats.shape[0]), _WORDS * int(counts.shape[0])]
        self._sparse = [each for each in gradients if isinstance(each, Rows)]
        self._widths = [
            _INDEX_WORDS + int(each.values.shape[1:].num_elements()) for each in self._sparse
        ]

    @property
    def sparse(self) -> int:
        """Number of sparse gradients."""
        return len(self._sparse)

    @property
    def tail(self) -> Any:
        """tf.TensorSpec of a fingerprint in words."""
        return tf.TensorSpec([_TAIL])

    @property
    def body(self) -> Any:
        """tf.TensorSpec of what take() leaves of a vector."""
        return tf.TensorSpec([None if self._sparse else sum(self._lengths)])

    def empty(self, rows: Any, tail: list[float]) -> Vector:
        """Return the vector of a shard without examples.

        Args:
            rows: Number of rows of each sparse gradient in all shards.
            tail: Fingerprint in words.
        """
        sparse = sum(int(count) * width for count, width in zip(rows, self._widths, strict=True))
        length = sum(self._lengths) + sparse + self.sparse
        return np.asarray([0.0] * length + tail, np.float32)

    def pack(self, results: Any, places: Any, tail: Any) -> Any:
        """Return the vector of a shard, in a graph.

        Args:
            results: Gradients, floats and counts, as a shard returns them.
            places: For each sparse gradient, the number of rows of the shards before this one,
                and of all shards; an int32 tensor of shape (sparse, 2).
            tail: Fingerprint in words.
        """
        gradients, floats, counts = results
        dense = [tf.reshape(each, [-1]) for each in gradients if not isinstance(each, Rows)]
        words = [_word(counts, _BITS, word) for word in range(_WORDS)]
        sparse = [each for each in gradients if isinstance(each, Rows)]
        rows = [
            self._placed(each, places[number], width)
            for number, (each, width) in enumerate(zip(sparse, self._widths, strict=True))
        ]
        own = [tf.cast(tf.shape(each.indices), tf.float32) for each in sparse]
        return tf.concat(
            [*dense, floats, tf.cast(tf.concat(words, 0), tf.float32), *rows, *own, tail], 0
        )

    def take(self, total: Vector) -> Any:
        """Return a sum without its fingerprint, as a tensor."""
        return tf.convert_to_tensor(total[:-_TAIL])

    def unpack(self, body: Any) -> Any:
        """Return gradients, floats and counts of a sum that take() has returned, in a graph."""
        rows: list[Any] = []
        if self._sparse:
            counts = tf.cast(body[-self.sparse :], tf.int32)
            lengths = [*self._lengths, *tf.unstack(counts * self._widths, self.sparse), self.sparse]
            pieces = tf.split(body, tf.stack(lengths), num=len(lengths))
            rows = [
                _rows(piece, width, spec)
                for piece, width, spec in zip(
                    pieces[len(self._lengths) : -1], self._widths, self._sparse, strict=True
                )
            ]
            fixed = pieces[: len(self._lengths)]
        else:
            fixed = tf.split(body, self._lengths)
        *dense, floats, words = fixed
        rest = {True: iter(rows), False: iter(dense)}
        gradients = [
            next(rest[True])
            if isinstance(spec, Rows)
            else tf.reshape(next(rest[False]), spec.shape)
            for spec in self._gradients
        ]
        shifted = [
            tf.bitwise.left_shift(tf.cast(word, tf.int64), tf.constant(_BITS * number, tf.int64))
            for number, word in enumerate(tf.split(words, _WORDS))
        ]
        return gradients, floats, tf.math.add_n(shifted)

    def _placed(self, rows: Rows, place: Any, width: int) -> Any:
        indices = tf.cast(rows.indices, tf.int64)
        columns = [
            tf.cast(_word(indices, _INDEX_BITS, word), tf.float32) for word in range(_INDEX_WORDS)
        ]
        values = tf.reshape(rows.values, [-1, width - _INDEX_WORDS])
        table = tf.concat([tf.stack(columns, 1), values], 1)
        after = place[1] - place[0] - tf.shape(table)[0]
        return tf.reshape(tf.pad(table, [[place[0], after], [0, 0]]), [-1])


def words_of_mark(mark: int) -> list[float]:
    """Return a fingerprint of 32 bits in words."""
    return [float(mark & _MASK), float(mark >> _BITS)]


def agrees(total: Vector, shards: int, mark: int) -> bool:
    """Return whether all shards of a sum have this fingerprint; True if they have none."""
    low, high = (int(word) for word in total[-_TAIL:])
    return (low, high) in ((0, 0), (shards * (mark & _MASK), shards * (mark >> _BITS)))


def _word(numbers: Any, bits: int, word: int) -> Any:
    shifted = tf.bitwise.right_shift(numbers, tf.constant(bits * word, tf.int64))
    return tf.bitwise.bitwise_and(shifted, (1 << bits) - 1)


def _rows(words: Any, width: int, spec: Rows) -> Rows:
    table = tf.reshape(words, [-1, width])
    low, high = (tf.cast(table[:, word], tf.int64) for word in range(_INDEX_WORDS))
    indices = low + tf.bitwise.left_shift(high, tf.constant(_INDEX_BITS, tf.int64))
    values = tf.reshape(table[:, _INDEX_WORDS:], [-1, *spec.values.shape[1:]])
    return Rows(values, tf.cast(indices, spec.indices.dtype))
