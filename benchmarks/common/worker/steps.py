# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Six small workloads of different kinds, each as a step that takes some milliseconds.

Imported by a worker only: whether tf_malleable came before tensorflow is decided there.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from benchmarks.common.worker import WORKLOADS

Step = Callable[[], object]

_SEED = 7


def _matmul() -> Step:
    left = tf.random.normal((1024, 1024))
    right = tf.random.normal((1024, 1024)) / 32

    @tf.function
    def step() -> tf.Tensor:
        return tf.matmul(tf.matmul(left, right), right)

    return step


def _conv() -> Step:
    images = tf.random.normal((8, 28, 28, 64))
    kernels = [tf.random.normal((3, 3, 64, 64)) / 24 for _ in range(4)]

    @tf.function
    def step() -> tf.Tensor:
        values = images
        for kernel in kernels:
            values = tf.nn.relu(tf.nn.conv2d(values, kernel, 1, "SAME"))
        return values

    return step


def _elementwise() -> Step:
    values = tf.random.normal((2048, 1024))

    @tf.function
    def step(values: tf.Tensor) -> tf.Tensor:
        return tf.tanh(values) * tf.exp(-values) + tf.sqrt(tf.abs(values))

    return lambda: step(values)


def _tiny_ops() -> Step:
    small = tf.random.normal((4, 4))
    other = tf.random.normal((4, 4))

    @tf.function
    def step(small: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        branches = []
        for branch in range(4):
            values = small + float(branch)
            for _ in range(50):
                values = tf.tanh(values * other)
            branches.append(values)
        return tf.add_n(branches)

    return lambda: step(small, other)


def _keras_fit() -> Step:
    layers = keras.layers
    model = keras.Sequential(
        [
            layers.Input((16, 16, 8)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer="adam", loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    random = np.random.default_rng(_SEED)
    images = random.normal(size=(640, 16, 16, 8)).astype(np.float32)
    labels = random.integers(0, 10, 640)
    return lambda: model.fit(images, labels, batch_size=32, epochs=1, verbose=0)


def _xla_step() -> Step:
    inputs = tf.random.normal((128, 512))
    targets = tf.random.normal((128, 512))
    weights = [tf.Variable(tf.random.normal((512, 512)) / 22) for _ in range(3)]

    @tf.function(jit_compile=True)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            values = inputs
            for weight in weights:
                values = tf.nn.relu(tf.matmul(values, weight))
            loss = tf.reduce_mean((values - targets) ** 2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.01 * gradient)
        return loss

    return step


_BUILDERS: dict[str, Callable[[], Step]] = dict(
    zip(
        WORKLOADS,
        (_matmul, _conv, _elementwise, _tiny_ops, _keras_fit, _xla_step),
        strict=True,
    )
)


def build(name: str) -> Step:
    """Return the step of the workload of that name, the same in every process."""
    keras.utils.set_random_seed(_SEED)
    return _BUILDERS[name]()
