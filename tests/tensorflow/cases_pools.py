# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pools that come and go."""

import contextlib
import random
import threading
import time
from typing import Any

import numpy as np
import tensorflow as tf

import tf_malleable as tfm

PRIVATE = "tf_data_private_threadpool"


def _private(data: tf.data.Dataset, threads: int) -> tf.data.Dataset:
    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    return data.with_options(options)


def short_lived(capacity: int, iterators: int) -> dict[str, Any]:
    """Build and drop iterators on three threads while limits change."""
    stop = threading.Event()
    ids: set[int] = set()
    sums: list[int] = []
    changes = 0

    def build_and_drop(seed: int) -> None:
        rng = random.Random(seed)
        for number in range(iterators):
            data = tf.data.Dataset.range(50).map(lambda x: x * 3, num_parallel_calls=6)
            iterator = iter(_private(data, rng.randint(2, capacity)))
            if number % 2:
                sums.append(int(sum(np.array(x) for x in iterator)))
            else:
                next(iterator)
            ids.update(pool.id for pool in tfm.pools() if pool.name == PRIVATE)
            del iterator

    builders = [threading.Thread(target=build_and_drop, args=[seed]) for seed in range(3)]
    for builder in builders:
        builder.start()

    def change() -> None:
        nonlocal changes
        rng = random.Random(7)
        while not stop.is_set():
            tfm.set_threads(intra=rng.randint(1, capacity), inter=rng.randint(1, capacity))
            for pool in tfm.pools():
                # It may be gone by now.
                with contextlib.suppress(ValueError):
                    tfm.set_pool_threads(pool.id, rng.randint(1, pool.capacity))
            changes += 1
            time.sleep(0.0003)

    changer = threading.Thread(target=change)
    changer.start()
    for builder in builders:
        builder.join()
    stop.set()
    changer.join()
    left = [pool.name for pool in tfm.pools() if pool.name == PRIVATE]
    return {"ids": len(ids), "sums": sums, "changes": changes, "left": left}


def drain(capacity: int, rounds: int) -> dict[str, Any]:
    """Drop iterators whose pools have tasks running and queued, most workers parked."""
    begun, ended = [], []
    lock = threading.Lock()

    def task(x: np.ndarray) -> np.ndarray:
        with lock:
            begun.append(int(x))
        time.sleep(0.003)
        with lock:
            ended.append(int(x))
        return x

    unfinished, pools_left, queued = [], [], 0
    for _ in range(rounds):
        tfm.set_threads(capacity)
        data = tf.data.Dataset.range(10**6).map(
            lambda x: tf.numpy_function(task, [x], tf.int64), num_parallel_calls=64
        )
        iterator = iter(_private(data, capacity))
        next(iterator)
        tfm.set_threads(1)
        next(iterator)
        queued += sum(pool.queued for pool in tfm.pools() if pool.name == PRIVATE)
        del iterator
        with lock:
            unfinished.append(len(begun) - len(ended))
        pools_left.append(sum(pool.name == PRIVATE for pool in tfm.pools()))
    return {
        "begun": len(begun),
        "queued": queued,
        "unfinished": unfinished,
        "pools_left": pools_left,
    }
