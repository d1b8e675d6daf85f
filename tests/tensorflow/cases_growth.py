# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A process that has run each kind of op with one thread, and then may use more."""

import json
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
from tensorflow.python.ops.linalg.sparse import sparse_csr_matrix_ops as csr

import tf_malleable as tfm

INTRA = "tf_numa_-1_Eigen"
Steps = dict[str, Callable[[], object]]


def _uniform(*shape: int) -> tf.Tensor:
    return tf.random.stateless_uniform(shape, (1, 2))


def _plain_steps() -> Steps:
    values, square = _uniform(1_000_000), _uniform(512, 512)
    # On a CPU with AVX-512 oneDNN cuts a plain product of 512 × 512 in two, whatever the limit.
    large = _uniform(1024, 1024)
    images, kernel, by_channel = (
        _uniform(8, 32, 32, 32),
        _uniform(3, 3, 32, 32),
        _uniform(3, 3, 32, 2),
    )
    table = _uniform(10_000, 128)
    rows = tf.random.stateless_uniform((20_000,), (3, 4), 0, 10_000, tf.int32)
    tall = tf.where(_uniform(4000, 300) > 0.8, _uniform(4000, 300), 0.0)
    matrix = csr.dense_to_csr_sparse_matrix(tall, tf.where(tall != 0))
    dense = _uniform(4000, 64)
    scale, shift = _uniform(32), _uniform(32)
    return {
        "elementwise": lambda: tf.tanh(values),
        "reduction": lambda: tf.reduce_sum(values),
        "softmax": lambda: tf.nn.softmax(large),
        "matmul": lambda: tf.matmul(large, large),
        "batched matmul": lambda: tf.matmul(
            tf.reshape(square, (16, 128, 128)), tf.reshape(square, (16, 128, 128))
        ),
        "dense": lambda: tf.nn.relu(tf.nn.bias_add(tf.matmul(square, square), square[0])),
        "conv": lambda: tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME")),
        "depthwise": lambda: tf.nn.depthwise_conv2d(images, by_channel, [1] * 4, "SAME"),
        "pooling": lambda: tf.nn.max_pool2d(images, 3, 1, "SAME"),
        "batch norm": lambda: tf.compat.v1.nn.fused_batch_norm(images, scale, shift)[0],
        "gather": lambda: tf.gather(table, rows),
        "segments": lambda: tf.math.unsorted_segment_sum(tf.gather(table, rows), rows, 10_000),
        "sort": lambda: tf.sort(large, axis=1),
        "top k": lambda: tf.nn.top_k(large, 17),
        "random": lambda: tf.random.normal((1024, 1024)),
        "bincount": lambda: tf.math.bincount(rows, minlength=10_000),
        "sparse matmul": lambda: csr.sparse_matrix_mat_mul(matrix, dense, transpose_a=True),
    }


def _compiled_steps() -> Steps:
    large, other = _uniform(1024, 1024), _uniform(1024, 1024)
    images, kernel = _uniform(8, 32, 32, 32), _uniform(3, 3, 32, 32)
    rows = tf.random.stateless_uniform((20_000,), (3, 4), 0, 1024, tf.int32)
    weights = [tf.Variable(_uniform(512, 512)) for _ in range(2)]
    batch = _uniform(256, 512)

    def train() -> tf.Tensor:
        with tf.GradientTape() as tape:
            found = batch
            for weight in weights:
                found = tf.nn.gelu(tf.matmul(found, weight))
            loss = tf.reduce_mean(found**2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(1e-9 * gradient)
        return loss

    steps: Steps = {
        "compiled elementwise": lambda: tf.tanh(tf.exp(large) * other + 1.0),
        "compiled sum": lambda: large + other,
        "compiled reduction": lambda: tf.reduce_sum(large * other, axis=1),
        "compiled softmax": lambda: tf.nn.softmax(large),
        "compiled matmul": lambda: tf.matmul(large, other),
        "compiled conv": lambda: tf.nn.conv2d(images, kernel, 1, "SAME"),
        "compiled gather": lambda: tf.gather(large, rows),
        "compiled training": train,
    }
    return {name: tf.function(step, jit_compile=True) for name, step in steps.items()}


def _tasks() -> int:
    # An op does not wait for helpers that found nothing to do any more.
    while any(pool.queued or pool.active for pool in tfm.pools()):
        time.sleep(0.0005)
    return sum(pool.tasks_run for pool in tfm.pools() if pool.name == INTRA)


def _tasks_of(step: Callable[[], object], times: int = 8) -> float:
    """Return how many tasks the intra-op pool runs for one step."""
    for _ in range(3):
        step()
    before = _tasks()
    for _ in range(times):
        step()
    return (_tasks() - before) / times


def _set(limit: int | list[int]) -> None:
    """Set a limit, or the CPUs as a controller does; 0 leaves all as it is."""
    if isinstance(limit, list):
        tfm.set_cpuset(limit)
    elif limit:
        tfm.set_threads(limit)


def tasks_of_steps(limits: Sequence[int | list[int]]) -> dict[str, list[float]]:
    """Return the tasks of one step of each kind, all kinds at one limit after the other."""
    _set(limits[0])
    steps = _plain_steps() | _compiled_steps()
    found: dict[str, list[float]] = {name: [] for name in steps}
    for limit in limits:
        _set(limit)
        for name, step in steps.items():
            found[name].append(_tasks_of(step))
    return found


def calls_side_by_side(limits: Sequence[int | list[int]], seconds: float) -> dict[str, int]:
    """Return how many calls tf.data ran at a time, and the capacity of XLA's compiler.

    The number of calls is left to tf.data. All is first used at the first limit.
    """
    _set(limits[0])
    lock, running, highest = threading.Lock(), 0, 0

    def sleep(value: np.ndarray) -> np.ndarray:
        nonlocal running, highest
        with lock:
            running += 1
            highest = max(highest, running)
        time.sleep(0.002)
        with lock:
            running -= 1
        return value

    def read(until: float) -> None:
        data = tf.data.Dataset.range(10**9).map(
            lambda x: tf.numpy_function(sleep, [x], tf.int64), num_parallel_calls=tf.data.AUTOTUNE
        )
        for _ in data:
            if time.monotonic() > until:
                break

    compiled = tf.function(lambda x: tf.sort(tf.exp(x)), jit_compile=True)
    compiled(tf.ones((64,)))
    read(time.monotonic() + 0.2)
    for limit in limits[1:]:
        _set(limit)
    highest = 0
    read(time.monotonic() + seconds)
    compilers = [pool.capacity for pool in tfm.pools() if pool.name == "tf_xla-cpu-codegen"]
    return {"calls": highest, "compilers": max(compilers, default=0)}


def tasks_as_granted(granted: list[int]) -> dict[str, list[float]]:
    """Return the tasks of one step of each kind, at each number of cores that is granted in turn.

    Prints the number as soon as all kinds have run with it.
    """
    steps = _plain_steps() | _compiled_steps()
    found: dict[str, list[float]] = {name: [] for name in steps}
    for cores in granted:
        while tfm.get_threads().intra != cores:
            time.sleep(0.01)
        for name, step in steps.items():
            found[name].append(_tasks_of(step))
        print(json.dumps([cores]), flush=True)
    return found
