# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What TensorFlow does while its limits change.

A workload builds itself once; each call is one round and returns the same
arrays every time. Matrices hold small whole numbers where that is possible:
their products are exact in float32, whatever order they are added up in.
"""

import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import layers

Arrays = dict[str, np.ndarray]


def whole_numbers(*shape: int, seed: int = 0, low: int = -3, high: int = 4) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(np.float32)


def _fit(model: keras.Model, x: np.ndarray, y: np.ndarray, epochs: int) -> Callable[[], Arrays]:
    model.compile(optimizer=keras.optimizers.SGD(0.01), loss="mse")
    first = model.get_weights()

    def one_round() -> Arrays:
        model.set_weights(first)
        history = model.fit(x, y, batch_size=16, epochs=epochs, shuffle=False, verbose=0)
        arrays = {f"weight{i}": weight for i, weight in enumerate(model.get_weights())}
        arrays["loss"] = np.array(history.history["loss"])
        arrays["prediction"] = np.array(model.predict(x[:16], verbose=0))
        return arrays

    return one_round


def keras_cnn() -> Callable[[], Arrays]:
    keras.utils.set_random_seed(1)
    model = keras.Sequential(
        [
            layers.Input((24, 24, 3)),
            layers.Conv2D(16, 3, activation="relu"),
            layers.DepthwiseConv2D(3),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.Flatten(),
            layers.Dense(32, activation="tanh"),
            layers.Dense(4),
        ]
    )
    rng = np.random.default_rng(1)
    return _fit(model, rng.random((96, 24, 24, 3), "f4"), rng.random((96, 4), "f4"), epochs=1)


def keras_lstm() -> Callable[[], Arrays]:
    keras.utils.set_random_seed(2)
    model = keras.Sequential(
        [
            # Large enough that its ops are cut into tasks.
            layers.Input((12, 64)),
            layers.LSTM(192, return_sequences=True),
            layers.Bidirectional(layers.LSTM(64)),
            layers.Dense(2),
        ]
    )
    rng = np.random.default_rng(2)
    return _fit(model, rng.random((256, 12, 64), "f4"), rng.random((256, 2), "f4"), epochs=1)


def while_loop() -> Callable[[], Arrays]:
    step = tf.constant(whole_numbers(192, 192, seed=3))

    @tf.function
    def loop() -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        def body(i, total, grid):
            grid = tf.math.floormod(tf.matmul(grid, step), 7.0)
            return i + 1, total + tf.reduce_sum(grid), grid

        start = (0, 0.0, tf.ones((192, 192)))
        _, total, grid = tf.while_loop(
            lambda i, total, grid: i < 40, body, start, parallel_iterations=8
        )
        mapped = tf.map_fn(
            lambda n: tf.reduce_sum(tf.range(n) * n), tf.range(40), parallel_iterations=10
        )
        return total, grid, mapped

    return lambda: dict(zip(("total", "grid", "mapped"), map(np.array, loop()), strict=True))


def tf_data() -> Callable[[], Arrays]:
    def in_python(x):
        return x + np.int64(1)

    def pipeline(deterministic: bool) -> tf.data.Dataset:
        def source(i):
            numbers = tf.data.Dataset.range(i * 100, i * 100 + 20)
            return numbers.map(lambda x: x * 2, num_parallel_calls=4)

        def heavier(x):
            matrix = tf.fill((48, 48), tf.cast(x % 5, tf.float32))
            return x + tf.cast(tf.reduce_sum(tf.matmul(matrix, matrix)), tf.int64)

        data = tf.data.Dataset.range(12).interleave(
            source,
            cycle_length=6,
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=deterministic,
        )
        data = data.map(heavier, num_parallel_calls=8, deterministic=deterministic)
        data = data.map(
            lambda x: tf.ensure_shape(tf.py_function(in_python, [x], tf.int64), []),
            num_parallel_calls=4,
            deterministic=deterministic,
        )
        data = data.batch(7, num_parallel_calls=2, deterministic=deterministic)
        options = tf.data.Options()
        if deterministic:
            options.threading.private_threadpool_size = 8
        return data.prefetch(3).with_options(options)

    def one_round() -> Arrays:
        ordered = np.concatenate([np.array(batch) for batch in pipeline(True)])
        unordered = np.concatenate([np.array(batch) for batch in pipeline(False)])
        return {"ordered": ordered, "unordered": np.sort(unordered)}

    return one_round


def xla_jit() -> Callable[[], Arrays]:
    a, b = (tf.constant(whole_numbers(200, 200, seed=seed)) for seed in (4, 5))
    image = tf.constant(whole_numbers(4, 40, 40, 8, seed=6))
    kernel = tf.constant(whole_numbers(3, 3, 8, 16, seed=7))

    @tf.function(jit_compile=True)
    def compiled(a, b, image, kernel):
        product = tf.matmul(a, b)
        return {
            "product": product,
            "elementwise": tf.where(product > 0, product * 2 + 1, -product),
            "reduced": tf.reduce_sum(tf.matmul(b, a, transpose_b=True), axis=0),
            "convolved": tf.nn.conv2d(image, kernel, 1, "SAME"),
            "sorted": tf.sort(product, axis=1),
        }

    def one_round() -> Arrays:
        for _ in range(4):
            result = compiled(a, b, image, kernel)
        return {name: np.array(value) for name, value in result.items()}

    return one_round


class _Served(tf.Module):
    def __init__(self) -> None:
        self.weights = [tf.Variable(whole_numbers(256, 256, seed=seed)) for seed in (8, 9)]

    @tf.function(input_signature=[tf.TensorSpec((None, 256))])
    def serve(self, x):
        for weights in self.weights:
            x = tf.math.floormod(tf.matmul(x, weights), 5.0)
        return {"y": x}


def saved_model() -> Callable[[], Arrays]:
    with tempfile.TemporaryDirectory() as folder:
        module = _Served()
        tf.saved_model.save(module, folder, signatures={"serve": module.serve})
        serve = tf.saved_model.load(folder).signatures["serve"]
    inputs = [tf.constant(whole_numbers(128, 256, seed=seed)) for seed in range(8)]

    def one_round() -> Arrays:
        outputs: dict[str, np.ndarray] = {}

        def client(number: int) -> None:
            answers = [np.array(serve(x=inputs[number])["y"]) for _ in range(6)]
            assert all(np.array_equal(answer, answers[0]) for answer in answers)
            outputs[f"client{number}"] = answers[0]

        clients = [threading.Thread(target=client, args=[number]) for number in range(8)]
        for thread in clients:
            thread.start()
        for thread in clients:
            thread.join()
        return outputs

    return one_round


def mirrored_strategy() -> Callable[[], Arrays]:
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    assert strategy.num_replicas_in_sync == 2
    first = whole_numbers(512, 256, seed=10)
    with strategy.scope():
        weights = tf.Variable(first)
        optimizer = keras.optimizers.SGD(0.5**13)
        optimizer.build([weights])
    data = tf.data.Dataset.from_tensor_slices(whole_numbers(256, 512, seed=11)).batch(64)
    distributed = strategy.experimental_distribute_dataset(data)

    @tf.function
    def train(batch):
        def replica(x):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(tf.matmul(x, weights))
            optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
            return loss

        return strategy.reduce("SUM", strategy.run(replica, args=(batch,)), axis=None)

    def one_round() -> Arrays:
        weights.assign(first)
        losses = [np.array(train(batch)) for batch in distributed]
        copies = [np.array(copy) for copy in weights.values]
        return {"losses": np.array(losses), "copy0": copies[0], "copy1": copies[1]}

    return one_round


def v1_session() -> Callable[[], Arrays]:
    v1 = tf.compat.v1
    graph = tf.Graph()
    with graph.as_default():
        x = v1.placeholder(tf.float32, (200, 200))
        branches = [tf.matmul(x, whole_numbers(200, 200, seed=seed)) for seed in range(6)]
        total = tf.math.floormod(tf.add_n(branches), 11.0)
        variable = v1.Variable(whole_numbers(200, 200, seed=12), use_resource=False)
        update = variable.assign(tf.math.floormod(variable + total, 13.0))
        queue = v1.FIFOQueue(4, [tf.float32], shapes=[[]])
        fill = queue.enqueue(tf.reduce_sum(total))
        take = queue.dequeue()
        initialize = v1.global_variables_initializer()
    feed = {x: whole_numbers(200, 200, seed=13)}

    def one_round() -> Arrays:
        # The second way has pools of its own, which go away with the session.
        for own_pools in (False, True):
            config = v1.ConfigProto(use_per_session_threads=own_pools)
            with v1.Session(graph=graph, config=config) as session:
                session.run(initialize)
                for _ in range(5):
                    updated = session.run(update, feed)
                filler = threading.Thread(
                    target=lambda run: [run(fill, feed) for _ in range(12)], args=[session.run]
                )
                filler.start()
                taken = [session.run(take) for _ in range(12)]
                filler.join()
        return {"updated": updated, "taken": np.array(taken)}

    return one_round


def nested_functions() -> Callable[[], Arrays]:
    a = tf.constant(whole_numbers(200, 200, seed=14))

    @tf.function
    def leaf(x, n):
        return tf.math.floormod(tf.matmul(x, a) + n, 9.0)

    @tf.function
    def middle(x, n):
        if n > 2.0:
            return leaf(leaf(x, n), n - 1.0)
        return leaf(x, n)

    @tf.function
    def outer(x):
        branches = [middle(x, tf.constant(float(n))) for n in range(6)]
        gradient = tf.gradients(tf.reduce_sum(tf.matmul(branches[0], x)), x)[0]
        return tf.add_n(branches), gradient

    return lambda: dict(zip(("sum", "gradient"), map(np.array, outer(a)), strict=True))


@dataclass(frozen=True)
class Workload:
    """How to build it, how close results must be, and the pools it has to use."""

    build: Callable[[], Callable[[], Arrays]]
    tolerance: float = 0.0
    pools: tuple[str, ...] = ("tf_Compute", "tf_numa_-1_Eigen")

    def differences(self, found: Arrays, expected: Any) -> list[str]:
        """Return a line for each array that is not as expected."""
        if set(found) != set(expected):
            return [f"arrays {sorted(found)}, not {sorted(expected)}"]
        lines = []
        for name, array in found.items():
            if array.shape != expected[name].shape:
                lines.append(f"{name}: shape {array.shape}, not {expected[name].shape}")
            elif self.tolerance == 0 and not np.array_equal(array, expected[name]):
                wrong = np.sum(array != expected[name])
                lines.append(f"{name}: {wrong} of {array.size} elements differ")
            elif not np.allclose(array, expected[name], self.tolerance, self.tolerance):
                distance = np.abs(array - expected[name]).max()
                lines.append(f"{name}: off by up to {distance}")
        return lines
