# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training that gains by a second core: wide dense layers, from tables of numbers.

An ordinary Keras program. It knows nothing of tf_malleable.
"""

from __future__ import annotations

import argparse

import keras
import numpy as np
import tensorflow as tf

_BATCH = 128
_ROWS = 32 * _BATCH


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True, help="batches to train on")
    parser.add_argument("--size", type=int, default=1024, help="width of the layers")
    options = parser.parse_args()

    keras.utils.set_random_seed(1)
    random = np.random.default_rng(1)
    inputs = random.normal(size=(_ROWS, options.size)).astype(np.float32)
    targets = np.tanh(inputs @ random.normal(size=(options.size, 1)) / options.size**0.5)
    data = tf.data.Dataset.from_tensor_slices((inputs, targets)).repeat().batch(_BATCH)
    # Or fit() ends seconds late: it waits for the thread that tunes the pipeline, which sleeps.
    without_tuning = tf.data.Options()
    without_tuning.autotune.enabled = False
    data = data.with_options(without_tuning)

    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((options.size,)),
            layers.Dense(options.size, activation="relu"),
            layers.Dense(options.size, activation="relu"),
            layers.Dense(1),
        ]
    )
    model.compile(optimizer="sgd", loss="mse", jit_compile=False)
    loss = model.fit(data, steps_per_epoch=options.steps, verbose=0).history["loss"]
    print(f"loss {loss[-1]:.4f} after {int(model.optimizer.iterations)} steps")


if __name__ == "__main__":
    main()
