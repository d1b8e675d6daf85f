# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One fit() under measurement: trains some steps for each line on standard input.

Answers each line with a line of JSON: the CPU time and the time that the steps took.
Keras, and whatever was put into it before, does the rest: python -m
benchmarks.elastic.training WORKLOAD STEPS.
"""

from __future__ import annotations

import json
import os
import sys
import time
from typing import Any

if os.environ.get("TF_MALLEABLE_ELASTIC"):
    import tf_malleable  # noqa: F401 - before tensorflow.

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers
BATCH = 128
_WARM_UP_STEPS = 20


def cnn() -> Any:  # noqa: ANN401 - a Keras model
    """Return digits' CNN with BatchNorm, Dropout and augmentation, 0.8 M parameters."""
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.RandomTranslation(0.1, 0.1),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.MaxPooling2D(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(512, activation="relu"),
            layers.Dropout(0.3),
            layers.Dense(10),
        ]
    )


def lstm() -> Any:  # noqa: ANN401
    """Return an LSTM over the rows of an image."""
    return keras.Sequential(
        [layers.Input((28, 28, 1)), layers.Reshape((28, 28)), layers.LSTM(96), layers.Dense(10)]
    )


def mlp() -> Any:  # noqa: ANN401
    """Return three dense layers of 1.2 M parameters in all."""
    return keras.Sequential(
        [
            layers.Input((28, 28, 1)),
            layers.Flatten(),
            layers.Dense(768, activation="relu"),
            layers.Dense(768, activation="relu"),
            layers.Dense(10),
        ]
    )


class _Paced(keras.callbacks.Callback):  # type: ignore[misc] # Keras is not typed.
    def __init__(self, steps: int) -> None:
        super().__init__()
        self._steps = steps
        self._begun = (0.0, 0.0)

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        done = batch + 1 - _WARM_UP_STEPS
        if done < 0 or done % self._steps:
            return
        if done:
            cpu, wall = time.process_time() - self._begun[0], time.perf_counter() - self._begun[1]
            print(json.dumps({"cpu": cpu, "wall": wall}), flush=True)
        if not sys.stdin.readline():
            os._exit(0)
        self._begun = time.process_time(), time.perf_counter()


def main() -> None:
    """Train until the input ends."""
    keras.utils.set_random_seed(1)
    random = np.random.default_rng(0)
    x = random.random((10 * BATCH, 28, 28, 1), "f4")
    y = random.integers(0, 10, len(x))
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(BATCH, drop_remainder=True)
    model = {"cnn": cnn, "lstm": lstm, "mlp": mlp}[sys.argv[1]]()
    model.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    paced = _Paced(int(sys.argv[2]))
    model.fit(data.repeat().prefetch(2), steps_per_epoch=10**9, verbose=0, callbacks=[paced])


if __name__ == "__main__":
    main()
