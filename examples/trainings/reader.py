# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training that waits for its input: seconds of fetching, then seconds of computing.

An ordinary Keras program. It knows nothing of tf_malleable. What it waits for, a slow
store, is played by a sleep: the same in every run.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import keras
import numpy as np
import tensorflow as tf

_BATCH = 128


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True, help="batches to train on")
    parser.add_argument("--size", type=int, default=1024, help="width of the layers")
    parser.add_argument("--shards", type=int, default=3, help="times it fetches input")
    parser.add_argument("--seconds", type=float, default=5.0, help="length of fetching once")
    options = parser.parse_args()

    keras.utils.set_random_seed(1)
    random = np.random.default_rng(1)
    inputs = random.normal(size=(_BATCH, options.size)).astype(np.float32)
    targets = random.normal(size=(_BATCH, 1)).astype(np.float32)

    def fetch() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for shard in range(options.shards):
            time.sleep(options.seconds)
            first, last = (options.steps * (shard + i) // options.shards for i in (0, 1))
            for _ in range(last - first):
                yield inputs, targets

    data = tf.data.Dataset.from_generator(
        fetch,
        output_signature=(
            tf.TensorSpec((_BATCH, options.size), tf.float32),
            tf.TensorSpec((_BATCH, 1), tf.float32),
        ),
    )
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
