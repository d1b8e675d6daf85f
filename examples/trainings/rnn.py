# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A training that gains nothing by a second core: a recurrent network, step after step.

An ordinary Keras program. It knows nothing of tf_malleable.
"""

from __future__ import annotations

import argparse

import keras
import numpy as np
import tensorflow as tf

_BATCH = 8
_LENGTH = 100


def main() -> None:
    """Train."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, required=True, help="batches to train on")
    parser.add_argument("--size", type=int, default=32, help="units of the recurrent layer")
    options = parser.parse_args()

    keras.utils.set_random_seed(1)
    values = np.sin(np.arange(5000) / 7).astype(np.float32)[:, None]
    data = keras.utils.timeseries_dataset_from_array(
        values[:-_LENGTH], values[_LENGTH:], _LENGTH, batch_size=_BATCH
    )
    # Or fit() ends seconds late: it waits for the thread that tunes the pipeline, which sleeps.
    without_tuning = tf.data.Options()
    without_tuning.autotune.enabled = False
    data = data.repeat().with_options(without_tuning)

    layers = keras.layers
    model = keras.Sequential(
        [layers.Input((_LENGTH, 1)), layers.LSTM(options.size), layers.Dense(1)]
    )
    model.compile(optimizer="adam", loss="mse", jit_compile=False)
    loss = model.fit(data, steps_per_epoch=options.steps, verbose=0).history["loss"]
    print(f"loss {loss[-1]:.4f} after {int(model.optimizer.iterations)} steps")


if __name__ == "__main__":
    main()
