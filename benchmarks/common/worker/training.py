# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A Keras training whose threads change under way.

Imported by a worker only, after tf_malleable.
"""

from __future__ import annotations

import time

import keras
import numpy as np

import tf_malleable as tfm

_BATCH = 512
_BATCHES = 4
_WIDTH = 1536
# The first steps of a fit() are slower: they are run at the first limit, untimed.
_LEAD_IN = 3


class _Change(keras.callbacks.Callback):  # type: ignore[misc]
    """Takes the time of every step and, if it is to, changes the limits at one."""

    def __init__(self, change_at: int | None = None, then: int = 0) -> None:
        super().__init__()
        self._change_at = change_at
        self._then = then
        self.starts: list[float] = []

    def on_train_batch_begin(self, batch: int, logs: object = None) -> None:
        """Take the time; what the change takes belongs to the step it is made at."""
        self.starts.append(time.perf_counter())
        if self._change_at is not None and len(self.starts) == _LEAD_IN + self._change_at + 1:
            tfm.set_threads(self._then)


class Trainer:
    """A network that is trained again and again."""

    def __init__(self) -> None:
        layers = keras.layers
        # Products that take tens of milliseconds: between shorter ones the kernel may
        # keep both threads on one CPU, with stock TensorFlow as with ours, and a share
        # of no gain is no number.
        self._model = keras.Sequential(
            [
                layers.Input((_WIDTH,)),
                layers.Dense(_WIDTH, activation="relu"),
                layers.Dense(_WIDTH, activation="relu"),
                layers.Dense(10),
            ]
        )
        self._model.compile(
            optimizer="sgd",
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=False,
        )
        random = np.random.default_rng(0)
        self._inputs = random.normal(size=(_BATCH, _WIDTH)).astype(np.float32)
        self._labels = random.integers(0, 10, _BATCH)
        self._fit(_BATCHES, [])

    def train(self, steps: int, first: int, then: int, change_at: int) -> list[float]:
        """Train, with another limit from the step `change_at` on; return the seconds of each."""
        tfm.set_threads(first)
        tfm.wait_settled(10)
        change = _Change(change_at, then)
        # One step more than are counted: what ends a fit() is not the last step's.
        self._fit(_LEAD_IN + steps + 1, [change])
        return np.diff(change.starts[_LEAD_IN:]).tolist()

    def starts(self, steps: int) -> list[float]:
        """Train with what limits there are; return when each step started and the last ended.

        All by the monotonic clock, in seconds.
        """
        change = _Change()
        self._fit(_LEAD_IN + steps + 1, [change])
        return change.starts[_LEAD_IN:]

    def _fit(self, steps: int, callbacks: list[keras.callbacks.Callback]) -> None:
        inputs = np.tile(self._inputs, (steps, 1))
        labels = np.tile(self._labels, steps)
        self._model.fit(inputs, labels, batch_size=_BATCH, epochs=1, verbose=0, callbacks=callbacks)
