# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Keras training as a pod: a CNN with BatchNorm, Dropout and Adam learns digits.

Each process writes what happens, and when, to a file of its own.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import threading
import time
from pathlib import Path

import keras
import numpy as np
from sklearn.datasets import load_digits

# What a step does once in each worker takes 17 ms of CPU here, and is to be little of it.
BATCH = 352
STEPS = 4
"""Of an epoch."""
# The last of the digits were written by other people, and so are more difficult.
_TRAINED = BATCH * STEPS


class _Notes(keras.callbacks.Callback):  # type: ignore[misc] # Keras is not typed.
    """Writes events as lines of JSON."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._file = (folder / f"{time.time():.3f}-{os.getpid()}.jsonl").open("w")
        self._lock = threading.Lock()
        self._begun = False

    def note(self, what: str, **more: object) -> None:
        """Write an event."""
        with self._lock:
            print(
                json.dumps({"what": what, "at": time.time(), **more}), file=self._file, flush=True
            )

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        if not self._begun:
            self._begun = True
            self.note("begin")

    def on_epoch_end(self, epoch: int, logs: object = None) -> None:
        self.note("epoch", number=epoch)


def _watch(notes: _Notes) -> None:
    """Note each limit that has settled."""
    import tf_malleable as tfm

    before = None
    while True:
        # Shards are computed side by side, each by one thread.
        threads = tfm.get_threads().inter
        if threads != before:
            tfm.wait_settled(5.0)
            notes.note("settled", threads=threads)
            before = threads
        time.sleep(0.001)


def main() -> None:
    """Train, and write down how good the model is."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--watch", action="store_true", help="note limits that have settled")
    options = parser.parse_args()
    notes = _Notes(options.folder)
    images, labels = load_digits(return_X_y=True)
    images = (images.reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    keras.utils.set_random_seed(1)
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((8, 8, 1)),
            layers.Conv2D(64, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.Conv2D(128, 3, padding="same", activation="relu"),
            layers.Conv2D(128, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dropout(0.5),
            layers.Dense(10),
        ]
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("adam", loss, metrics=["accuracy"])
    if options.watch:
        threading.Thread(target=_watch, args=(notes,), daemon=True).start()
    model.fit(
        images[:_TRAINED],
        labels[:_TRAINED],
        batch_size=BATCH,
        epochs=options.epochs,
        verbose=0,
        callbacks=[notes],
    )
    notes.note("trained")
    guessed = model.predict(images[_TRAINED:], verbose=0).argmax(1)
    weights = b"".join(np.asarray(each).tobytes() for each in model.get_weights())
    accuracy = float((guessed == labels[_TRAINED:]).mean())
    notes.note("end", accuracy=accuracy, weights=hashlib.sha256(weights).hexdigest()[:16])


if __name__ == "__main__":
    main()
