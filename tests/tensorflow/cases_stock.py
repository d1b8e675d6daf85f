# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What must be the same with and without tf_malleable; runs both ways."""

import ctypes
import hashlib
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

tfm = sys.modules.get("tf_malleable")
_libm = ctypes.CDLL("libm.so.6")
_FE_UPWARD = 0x800


def _digest(array: Any) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]


def _intra_tasks() -> int | None:
    if tfm is None:
        return None
    return sum(pool.tasks_run for pool in tfm.pools() if pool.kind == "intra_op")


def floating_point(private_threads: int) -> dict[str, Any]:
    """Start with another rounding mode, which new threads would inherit."""
    assert _libm.fesetround(_FE_UPWARD) == 0
    tiny = tf.fill((4_000_000,), np.float32(1e-20))
    denormal = np.frombuffer(np.full(1_000_000, 1000, np.uint32).tobytes(), np.float32)
    ones = tf.ones((4_000_000,))
    modes: Counter[str] = Counter()
    lock = threading.Lock()

    def on_worker(x: np.ndarray) -> np.ndarray:
        with lock:
            modes[f"round {_libm.fegetround()}, flushed {bool(np.float32(1e-20) ** 2 == 0)}"] += 1
        return x

    data = tf.data.Dataset.range(64).map(
        lambda x: tf.numpy_function(on_worker, [x], tf.int64), num_parallel_calls=private_threads
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = private_threads
    list(data.with_options(options))
    products, sums = (tiny * tiny).numpy(), (ones + tiny).numpy()
    scaled = (tf.constant(denormal) * tf.constant(np.float32(1e30))).numpy()
    third = (ones / 3.0).numpy()
    return {
        "flushed_results": float(np.mean(products == 0)),
        "flushed_operands": float(np.mean(scaled == 0)),
        "rounded_to_nearest": float(np.mean(sums == 1)),
        "thirds": sorted(map(str, np.unique(third))),
        "modes": dict(modes),
        "intra_tasks": _intra_tasks(),
    }


def _busy() -> None:
    x = tf.random.stateless_uniform((3_000_000,), (1, 2))
    matrix = tf.reshape(x[:1_000_000], (1000, 1000))

    @tf.function
    def branches() -> tf.Tensor:
        return tf.add_n([tf.exp(matrix * i) for i in range(8)])

    for _ in range(10):
        tf.exp(tf.tanh(x))
        branches()
    list(tf.data.Dataset.range(200).map(lambda n: n + 1, num_parallel_calls=4))


def _threads() -> tuple[Counter[str], Counter[str]]:
    names, cpus = Counter[str](), Counter[str]()
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            name, status = ((task / file).read_text() for file in ("comm", "status"))
            names[name.strip()] += 1
            cpus[status.split("Cpus_allowed_list:")[1].split()[0]] += 1
    return names, cpus


def _settled_threads() -> tuple[Counter[str], Counter[str]]:
    """Return names and CPUs once no thread of a dropped iterator is still on its way out."""
    seen, now = None, _threads()
    for _ in range(50):
        if seen == now:
            break
        time.sleep(0.2)
        seen, now = now, _threads()
    return now


def threads_and_trace() -> dict[str, Any]:
    """Return names and CPUs of all threads, and the thread pools' trace events."""
    _busy()
    names, cpus = _settled_threads()
    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        _busy()
        tf.profiler.experimental.stop()
        (found,) = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(found.read_bytes())
    events: Counter[str] = Counter()
    for plane in space.planes:
        for line in plane.lines:
            for event in line.events:
                name = plane.event_metadata[event.metadata_id].name
                events[name.split("#")[0]] += 1
    pool_events = {name: count for name, count in events.items() if "Threadpool" in name}
    return {
        "names": dict(names),
        "cpus": dict(cpus),
        "pool_events": pool_events,
    }


def _results() -> dict[str, str]:
    uniform = tf.random.stateless_uniform
    x, image = uniform((2_000_003,), (1, 2)), uniform((4, 40, 40, 8), (3, 4))
    matrix, kernel = uniform((500, 700), (5, 6)), uniform((3, 3, 8, 16), (7, 8))

    @tf.function
    def in_a_graph() -> tf.Tensor:
        return tf.add_n([tf.reduce_mean(tf.sin(matrix * i), axis=1) for i in range(6)])

    data = tf.data.Dataset.range(50).map(lambda n: n * n, num_parallel_calls=4).batch(8)
    found = {
        "total": tf.reduce_sum(x),
        "by_column": tf.reduce_sum(tf.reshape(x[:2_000_000], (2000, 1000)), axis=0),
        "product": tf.matmul(matrix, matrix, transpose_b=True),
        "convolved": tf.nn.conv2d(image, kernel, 1, "SAME"),
        "softmax": tf.nn.softmax(matrix),
        "graph": in_a_graph(),
        # Each shard of this op draws numbers of its own: a fingerprint of the
        # number of shards, and so of the number of threads.
        "drawn": tf.random.stateless_categorical(tf.zeros((40, 30)), 500, (3, 4)),
        "data": np.concatenate([np.array(batch) for batch in data]),
    }
    return {name: _digest(np.array(value)) for name, value in found.items()}


def _reported() -> dict[str, Any] | None:
    if tfm is None:
        return None
    now = tfm.get_threads()
    pools = {pool.kind: [pool.limit, pool.capacity] for pool in tfm.pools()[:2]}
    return {"limits": [now.intra, now.inter], "pools": pools}


def untouched(intra: int | None, inter: int | None) -> dict[str, Any]:
    """Compute with what TensorFlow is started with, by tf.config if given."""
    if intra is not None:
        tf.config.threading.set_intra_op_parallelism_threads(intra)
    if inter is not None:
        tf.config.threading.set_inter_op_parallelism_threads(inter)
    results = _results()
    return {"results": results, "reported": _reported()}


def at_limits(limits: list[int]) -> list[dict[str, str]]:
    """Compute at one limit after the other."""
    found = []
    for limit in limits:
        tfm.set_threads(limit)
        found.append(_results())
    return found
