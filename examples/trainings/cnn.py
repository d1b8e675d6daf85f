# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training that gains by a second core: a CNN on images of digits.

An ordinary Keras program. It knows nothing of tf_malleable.
"""

from __future__ import annotations

import argparse

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

_BATCH = 64


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True, help="batches to train on")
    parser.add_argument("--size", type=int, default=64, help="filters of the convolutions")
    options = parser.parse_args()

    keras.utils.set_random_seed(1)
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    data = tf.data.Dataset.from_tensor_slices((images, labels))
    # Or fit() ends seconds late: it waits for the thread that tunes the pipeline, which sleeps.
    without_tuning = tf.data.Options()
    without_tuning.autotune.enabled = False
    data = data.shuffle(len(labels), seed=1).repeat().batch(_BATCH).prefetch(2)
    data = data.with_options(without_tuning)

    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(options.size, 3, padding="same", activation="relu"),
            layers.Conv2D(2 * options.size, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=False,  # XLA's convolutions gain little by more threads.
    )
    accuracy = model.fit(data, steps_per_epoch=options.steps, verbose=0).history["accuracy"]
    print(f"accuracy {accuracy[-1]:.3f} after {int(model.optimizer.iterations)} steps")


if __name__ == "__main__":
    main()
