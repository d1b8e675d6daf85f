# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training with all that makes results depend on how batches are divided: a CNN on digits
with BatchNorm, Dropout and Adam.

An ordinary Keras program. It knows nothing of tf_malleable.
"""

from __future__ import annotations

import argparse
import hashlib

import keras
import numpy as np
from sklearn.datasets import load_digits

_BATCH = 64


def main() -> None:
    """Train, and print the accuracy and a digest of the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--size", type=int, default=48, help="filters of the convolutions")
    options = parser.parse_args()

    keras.utils.set_random_seed(1)
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(options.size, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(2 * options.size, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.3),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    history = model.fit(
        images,
        labels,
        batch_size=_BATCH,
        epochs=options.epochs,
        validation_split=0.2,
        verbose=0,
    ).history
    weights = b"".join(np.asarray(each).tobytes() for each in model.get_weights())
    digest = hashlib.sha256(weights).hexdigest()[:16]
    print(f"accuracy {history['val_accuracy'][-1]:.4f}, weights {digest}", flush=True)


if __name__ == "__main__":
    main()
