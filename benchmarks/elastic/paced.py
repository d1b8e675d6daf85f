# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Keras training under measurement: paced.py WORKLOAD STEPS [lines].

With `lines`, it trains some steps for each line on standard input, and answers with the seconds
that they took; without, it trains as others let it.
"""

from __future__ import annotations

import os
import sys
import time

import keras
import numpy as np
import tensorflow as tf

BATCH = 512
_WARM_UP_STEPS = 10


def cnn() -> keras.Model:
    """Return a CNN of 0.4 M parameters that computes much."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )


def dense() -> keras.Model:
    """Return dense layers of 1 M parameters that compute little."""
    layers = keras.layers
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Flatten(),
            layers.Dense(680, activation="relu"),
            layers.Dense(680, activation="relu"),
            layers.Dense(10),
        ]
    )


class _Paced(keras.callbacks.Callback):  # type: ignore[misc] # Keras is not typed.
    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps, self._begun = steps, 0.0

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        # The first step after a pause does not count: others have begun theirs during it.
        done = (batch + 1 - _WARM_UP_STEPS) % (self._steps + 1)
        if batch + 1 < _WARM_UP_STEPS:
            return
        if done == 1:
            self._begun = time.perf_counter()
        if done == 0:
            print(time.perf_counter() - self._begun, flush=True)
            if not sys.stdin.readline():
                os._exit(0)


def main(workload: str, steps: int, *, is_paced: bool) -> None:
    """Train until the input, or another process, ends it."""
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(0)
    x = random.random((10 * BATCH, 28, 28, 1), "f4")
    y = random.integers(0, 10, len(x))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True)
    model = {"cnn": cnn, "dense": dense}[workload]()
    model.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    callbacks = [_Paced(steps)] if is_paced else []
    model.fit(data.repeat().prefetch(2), steps_per_epoch=10**9, verbose=0, callbacks=callbacks)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), is_paced=len(sys.argv) > 3)
