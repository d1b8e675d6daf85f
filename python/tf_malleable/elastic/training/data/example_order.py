# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Order in which fit() sees the examples of arrays: the same in each member.

Keras shuffles with generators that every process seeds for itself, and a newcomer could not know
how often they have drawn. Here the order follows from a seed of the training and the number of
the pass through the data.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import tensorflow as tf


class ExampleOrder:
    """The order of examples in one fit()."""

    def __init__(self, seed: int) -> None:
        """Create the order for one fit().

        Args:
            seed: Seed of the training; below 2**31.
        """
        self._seeds = tf.Variable([seed, 0], dtype=tf.int64, trainable=False)

    def begin(self, seed: int, turn: int) -> None:
        """Set the seed and the number of the pass that is about to begin."""
        self._seeds.assign([seed, turn])

    def shuffle(self, value: Any, **_: Any) -> Any:
        """Shuffle as tf.random.shuffle() does, inside a tf.data function."""
        # Batches that are each shuffled in themselves differ by their first index.
        salt = tf.stack([tf.cast(tf.reshape(value, [-1])[0], tf.int64), tf.constant(0, tf.int64)])
        return tf.random.experimental.stateless_shuffle(value, seed=self._seeds + salt)

    @contextmanager
    def instead_of_tensorflow(self) -> Iterator[None]:
        """Make Keras's adapter for arrays use this order while it builds its dataset."""
        original = tf.random.shuffle
        tf.random.shuffle = self.shuffle
        try:
            yield
        finally:
            tf.random.shuffle = original


def new_seed() -> int:
    """Return a seed derived from Python's generator, without advancing it."""
    copy = random.Random()
    copy.setstate(random.getstate())
    return copy.randrange(2**31)


def shuffled(seed: int, turn: int, values: list[int]) -> list[int]:
    """Return the values in the order of a pass."""
    return random.Random(f"{seed}/{turn}").sample(values, len(values))
