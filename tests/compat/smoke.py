# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Trains and computes while limits change; prints "smoke ok with 2.21.0". Run by test_wheel.py."""

from __future__ import annotations

import faulthandler
import random
import sys
import threading

import tf_malleable as tfm

import keras  # isort: skip - after tf_malleable
import numpy as np
import tensorflow as tf


def change_limits(stop: threading.Event) -> None:
    """Set random limits until told to stop."""
    rng = random.Random(0)
    while not stop.wait(0.0005):
        tfm.set_threads(intra=rng.randint(1, 4), inter=rng.randint(1, 4))


def compute() -> list[np.ndarray]:
    """Return results of a bit of everything."""
    rng = np.random.default_rng(0)
    matrix = tf.constant(rng.normal(size=(256, 256)).astype(np.float32) / 16)
    image = tf.constant(rng.normal(size=(4, 32, 32, 8)).astype(np.float32))
    kernel = tf.constant(rng.normal(size=(3, 3, 8, 16)).astype(np.float32))

    @tf.function
    def graph(x: tf.Tensor) -> tf.Tensor:
        return tf.while_loop(lambda i, y: i < 10, lambda i, y: (i + 1, tf.tanh(y @ x)), (0, x))[1]

    @tf.function(jit_compile=True)
    def compiled(x: tf.Tensor) -> tf.Tensor:
        return tf.nn.relu(x @ x) - tf.reduce_sum(x)

    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    data = (
        tf.data.Dataset.range(200)
        .map(lambda x: x * 2, num_parallel_calls=tf.data.AUTOTUNE)
        .batch(20)
        .prefetch(2)
        .with_options(options)
    )
    return [
        graph(matrix).numpy(),
        compiled(matrix).numpy(),
        tf.nn.conv2d(image, kernel, 1, "SAME").numpy(),
        np.concatenate([batch.numpy() for batch in data]),
        tf.math.bincount(tf.constant(rng.integers(0, 50, 100_000), tf.int32)).numpy(),
        tf.nn.max_pool2d(image, 2, 2, "VALID").numpy(),
    ]


def fit() -> float:
    """Return the loss of a small training."""
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.layers.Dense(32, activation="relu"), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x = np.random.default_rng(1).normal(size=(512, 16)).astype(np.float32)
    history = model.fit(x, x[:, :1], batch_size=64, epochs=3, verbose=0, shuffle=False)
    return float(history.history["loss"][-1])


def main() -> None:
    """Compare an undisturbed run with one under constant change."""
    faulthandler.dump_traceback_later(200, exit=True)
    start = int(sys.argv[1])
    assert tfm.backend() == "overlay"
    undisturbed, loss = compute(), fit()
    assert tfm.get_threads() == tfm.Threads(start, start), tfm.get_threads()
    capacities = {pool.name: pool.capacity for pool in tfm.pools()}
    assert capacities["tf_Compute"] == capacities["tf_numa_-1_Eigen"] == 4, capacities

    stop = threading.Event()
    changer = threading.Thread(target=change_limits, args=(stop,))
    changer.start()
    try:
        for _ in range(5):
            for expected, found in zip(undisturbed, compute(), strict=True):
                np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
            np.testing.assert_allclose(fit(), loss, rtol=1e-3)
    finally:
        stop.set()
        changer.join()
    tfm.set_threads(1)
    assert tfm.wait_settled(10)
    assert all(pool.limit == 1 and pool.active <= 1 for pool in tfm.pools())
    # As pip spells it: of a release candidate, TensorFlow says 2.22.0-rc0.
    print(f"smoke ok with {tf.__version__.replace('-', '')}")


if __name__ == "__main__":
    main()
