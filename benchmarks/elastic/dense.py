# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Keras training that does not end: three dense layers of WIDTH, batches of BATCH images."""

from __future__ import annotations

import sys

import keras
import numpy as np

_STEPS = 100


def main(width: int, batch: int) -> None:
    """Train until somebody ends this process."""
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(0)
    x = random.random((_STEPS * batch, 784), "f4")
    y = random.integers(0, 10, len(x))
    layers = [keras.layers.Dense(width, activation="relu") for _ in range(2)]
    model = keras.Sequential([keras.layers.Input((784,)), *layers, keras.layers.Dense(10)])
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    model.fit(x, y, batch_size=batch, epochs=10**6, verbose=0)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
