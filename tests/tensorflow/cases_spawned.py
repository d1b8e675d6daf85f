# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a child of multiprocessing runs.

Imports neither library at the top: a spawned child begins with this file, and
stock TensorFlow runs some_work() too.
"""

from typing import Any


def some_work() -> float:
    import tensorflow as tf

    x = tf.ones((300, 300))
    for _ in range(5):
        x = tf.math.floormod(tf.matmul(x, x), 7.0)
    numbers = tf.data.Dataset.range(100).map(lambda n: n * n, num_parallel_calls=4)
    return float(tf.reduce_sum(x)) + float(sum(int(n) for n in numbers))


def in_child(results: Any) -> None:
    import tf_malleable as tfm

    before = tfm.get_threads()
    limits, work = [], []
    for threads in (4, 1, 3):
        tfm.set_threads(threads)
        work.append(some_work())
        limits.append([tfm.get_threads().intra, tfm.get_threads().inter])
    results.put(
        {
            "before": [before.intra, before.inter],
            "limits": limits,
            "work": work,
            "pools": sorted({pool.name for pool in tfm.pools()}),
        }
    )
