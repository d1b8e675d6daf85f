# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Small workloads of different kinds, each as a step that takes some milliseconds.

Imported by a worker only: whether tf_malleable came before tensorflow is decided there.
"""

from __future__ import annotations

from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

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


def _tiny_ops(chains: int = 4) -> Step:
    small = tf.random.normal((4, 4))
    other = tf.random.normal((4, 4))

    @tf.function
    def step(small: tf.Tensor, other: tf.Tensor) -> tf.Tensor:
        branches = []
        for branch in range(chains):
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


def _xla_elementwise() -> Step:
    values = tf.random.normal((2048, 1024))

    @tf.function(jit_compile=True)
    def step(values: tf.Tensor) -> tf.Tensor:
        return tf.tanh(values) * tf.exp(-values) + tf.sqrt(tf.abs(values))

    return lambda: step(values)


def _product(size: int) -> Step:
    left = tf.random.normal((size, size))
    right = tf.random.normal((size, size))
    return tf.function(lambda: tf.matmul(left, right))  # type: ignore[no-any-return]


def _dense() -> Step:
    """Return a product, a bias and an activation, which oneDNN does as one."""
    inputs = tf.random.normal((512, 1024))
    weights = tf.random.normal((1024, 1024)) / 32
    bias = tf.random.normal((1024,))

    @tf.function
    def step() -> tf.Tensor:
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(inputs, weights), bias))

    return step


def _bincount() -> Step:
    values = tf.random.uniform((1_000_000,), maxval=1_000_000, dtype=tf.int32, seed=_SEED)
    return lambda: tf.math.bincount(values, minlength=1_000_000, maxlength=1_000_000)


def _training(inputs: tuple[int, ...], batch: int, *layers: keras.Layer) -> Step:
    """Return one step of training, on a batch that stays the same."""
    model = keras.Sequential([keras.layers.Input(inputs), *layers, keras.layers.Dense(10)])
    model.compile(
        optimizer="sgd",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        jit_compile=False,
    )
    random = np.random.default_rng(_SEED)
    values = random.normal(size=(batch, *inputs)).astype(np.float32)
    labels = random.integers(0, 10, batch)
    return lambda: model.train_on_batch(values, labels)


def _mlp() -> Step:
    dense = keras.layers.Dense
    return _training((1024,), 256, dense(1024, "relu"), dense(1024, "relu"))


def _cnn() -> Step:
    conv, pool = keras.layers.Conv2D, keras.layers.MaxPooling2D
    return _training(
        (32, 32, 3),
        32,
        conv(32, 3, activation="relu"),
        conv(32, 3, activation="relu"),
        pool(),
        conv(64, 3, activation="relu"),
        keras.layers.Flatten(),
    )


def _lstm() -> Step:
    # With dropout inside, it is TensorFlow's own loop and not one fused op.
    return _training((24, 64), 64, keras.layers.LSTM(128, recurrent_dropout=0.1))


class _TransformerBlock(keras.Layer):  # type: ignore[misc]
    """Attention and two dense layers, each added to its input and normalised."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self._attention = keras.layers.MultiHeadAttention(heads, width // heads)
        self._first_norm = keras.layers.LayerNormalization()
        self._wide = keras.layers.Dense(4 * width, "gelu")
        self._narrow = keras.layers.Dense(width)
        self._second_norm = keras.layers.LayerNormalization()

    def call(self, values: tf.Tensor) -> tf.Tensor:
        values = self._first_norm(values + self._attention(values, values))
        return self._second_norm(values + self._narrow(self._wide(values)))


def _transformer() -> Step:
    pool = keras.layers.GlobalAveragePooling1D()
    return _training((64, 256), 16, _TransformerBlock(256, 4), pool)


_BUILDERS: dict[str, Callable[[], Step]] = {
    "matmul": _matmul,
    "conv": _conv,
    "elementwise": _elementwise,
    "tiny-ops": _tiny_ops,
    "tiny-ops-16": lambda: _tiny_ops(16),
    "keras-fit": _keras_fit,
    "xla-step": _xla_step,
    "xla-elementwise": _xla_elementwise,
    "matmul-256": lambda: _product(256),
    "matmul-1024": lambda: _product(1024),
    "matmul-4096": lambda: _product(4096),
    "dense": _dense,
    "bincount": _bincount,
    "mlp": _mlp,
    "cnn": _cnn,
    "lstm": _lstm,
    "transformer": _transformer,
}


def build(name: str) -> Step:
    """Return the step of the workload of that name, the same in every process."""
    keras.utils.set_random_seed(_SEED)
    return _BUILDERS[name]()
