# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Keeps all pools full and counts the workers that are active at each limit."""

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

import tf_malleable as tfm

_PATIENCE_SECONDS = 5.0


def _sleep(x: np.ndarray) -> np.ndarray:
    time.sleep(0.002)
    return x


def _sleeping_map(threads: int) -> tf.data.Dataset:
    data = tf.data.Dataset.range(10**9).map(
        lambda x: tf.py_function(_sleep, [x], tf.int64), num_parallel_calls=2 * threads
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return data.with_options(options)


def _ops_side_by_side(threads: int) -> Callable[[], Any]:
    @tf.function
    def ops(x: tf.Tensor) -> tf.Tensor:
        # Stateful ones would wait for each other.
        return tf.add_n(
            [tf.numpy_function(_sleep, [x + i], tf.int64, False) for i in range(2 * threads)]
        )

    return lambda: ops(tf.constant(1, tf.int64))


def _compilations() -> Callable[[], Any]:
    sizes = itertools.count(3)

    def compile_another() -> tf.Tensor:
        size = next(sizes)
        function = tf.function(lambda x: tf.sort(tf.exp(x) * size, axis=0), jit_compile=True)
        return function(tf.ones((size, 8)))

    return compile_another


def _loads(capacity: int) -> list[Callable[[], Any]]:
    matrix = tf.random.stateless_uniform((600, 600), (1, 2))
    long = tf.random.stateless_uniform((2_000_000,), (1, 2))
    compiled = tf.function(lambda x: tf.matmul(x, x) * 2 + tf.sort(x, axis=1), jit_compile=True)
    data = iter(_sleeping_map(capacity))
    return [
        lambda: tf.exp(tf.tanh(long)),
        lambda: tf.reduce_sum(long * long + long),
        lambda: tf.matmul(matrix, matrix),
        lambda: compiled(matrix),
        lambda: next(data),
        _compilations(),
        _ops_side_by_side(capacity),
        _ops_side_by_side(capacity),
    ]


def sample_every_limit(capacity: int, seconds_each: float, full: list[str]) -> dict[str, Any]:
    """Return for each pool and limit the highest number of active workers seen.

    Looks longer while one of the pools `full` has not been seen with as many as the limit:
    what feeds them may have to wait for a CPU.
    """
    stop = threading.Event()
    failed: list[str] = []

    def repeat(load: Callable[[], Any]) -> None:
        try:
            while not stop.is_set():
                load()
        except Exception as error:
            failed.append(repr(error))

    tfm.set_threads(capacity)
    threads = [threading.Thread(target=repeat, args=[load]) for load in _loads(capacity)]
    for thread in threads:
        thread.start()
    time.sleep(2)
    limits = [*range(1, capacity + 1), *range(capacity, 0, -1), 1, capacity, 1]
    highest: dict[str, dict[int, int]] = {}
    wrong, unsettled, samples = [], 0, 0
    for limit in limits:
        tfm.set_threads(limit)
        unsettled += not tfm.wait_settled(10)
        start = time.monotonic()
        while (spent := time.monotonic() - start) < seconds_each or (
            spent < _PATIENCE_SECONDS and any(highest[pool].get(limit, 0) < limit for pool in full)
        ):
            for pool in tfm.pools():
                samples += 1
                if pool.limit != min(limit, pool.capacity) or pool.active > pool.limit:
                    wrong.append(f"limit {limit}: {pool}")
                seen = highest.setdefault(pool.name, {})
                seen[limit] = max(seen.get(limit, 0), pool.active)
            time.sleep(0.0005)
    stop.set()
    for thread in threads:
        thread.join()
    return {
        "failed": failed,
        "wrong": wrong[:10],
        "unsettled": unsettled,
        "samples": samples,
        "highest": highest,
        "stand_ins": {pool.name: pool.stand_in_tasks for pool in tfm.pools()},
    }


def tasks_of_xla_steps(limits: list[int]) -> list[int]:
    """Return how many tasks compiled steps gave to the intra-op pool at each limit; 0: unset."""
    weights = [tf.Variable(tf.random.stateless_uniform((512, 512), (1, 2))) for _ in range(3)]
    inputs = tf.random.stateless_uniform((128, 512), (3, 4))

    @tf.function(jit_compile=True)
    def step() -> tf.Tensor:
        with tf.GradientTape() as tape:
            values = inputs
            for weight in weights:
                values = tf.nn.relu(tf.matmul(values, weight))
            loss = tf.reduce_mean(values**2)
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(1e-9 * gradient)
        return loss

    def tasks() -> int:
        # A step does not wait for helpers that found nothing to do any more.
        while any(pool.queued or pool.active for pool in tfm.pools()):
            time.sleep(0.001)
        return sum(pool.tasks_run for pool in tfm.pools() if pool.name == "tf_numa_-1_Eigen")

    counts = []
    for limit in limits:
        if limit:
            tfm.set_threads(limit)
        step().numpy()
        before = tasks()
        for _ in range(20):
            step()
        step().numpy()
        counts.append(tasks() - before)
    return counts
