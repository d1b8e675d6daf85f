# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trains a CNN with BatchNorm, Dropout and Adam on digits, and prints how good it is at the end."""

from __future__ import annotations

import argparse
import hashlib
import json
import time
from pathlib import Path

import keras
import numpy as np
from sklearn.datasets import load_digits

_BATCH = 64
# The last of them were written by other people, and so are more difficult.
_TRAINED = 1437
_SLOW_SECONDS = 0.06
_RESIZED_SHARE = 0.1


class _SlowUntil(keras.callbacks.Callback):  # type: ignore[misc] # Keras is not typed.
    """Takes slow steps until a file exists, so that there is time for workers to come and go."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self._file = file

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        if not self._file.exists():
            time.sleep(_SLOW_SECONDS)


class _Resized(keras.callbacks.Callback):  # type: ignore[misc]
    """Is granted other numbers of threads after some steps, as by a controller."""

    def __init__(self) -> None:
        super().__init__()
        from tf_malleable.runtime import limits

        self._set_by_grant = limits.set_by_grant
        # In each process otherwise.
        self._random = np.random.default_rng()

    def on_train_batch_end(self, batch: int, logs: object = None) -> None:
        if self._random.random() < _RESIZED_SHARE:
            self._set_by_grant(int(self._random.integers(1, 3)))


def main() -> None:
    """Train, and print the accuracy and a digest of the weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True, help="of weights and orders")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--slow-until", type=Path, help="take slow steps until this file exists")
    parser.add_argument("--resized", action="store_true", help="change the threads at random")
    options = parser.parse_args()

    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    keras.utils.set_random_seed(options.seed)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
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
    callbacks: list[keras.callbacks.Callback] = []
    if options.slow_until is not None:
        callbacks.append(_SlowUntil(options.slow_until))
    if options.resized:
        callbacks.append(_Resized())
    model.fit(
        images[:_TRAINED],
        labels[:_TRAINED],
        batch_size=_BATCH,
        epochs=options.epochs,
        verbose=0,
        callbacks=callbacks,
    )
    guessed = model.predict(images[_TRAINED:], verbose=0).argmax(1)
    weights = b"".join(np.asarray(each).tobytes() for each in model.get_weights())
    said = {
        "accuracy": float((guessed == labels[_TRAINED:]).mean()),
        "weights": hashlib.sha256(weights).hexdigest()[:16],
    }
    print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()
