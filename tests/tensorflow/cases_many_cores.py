# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A limit far below the capacity: into how many pieces work is cut, and what is allocated."""

import os
import resource
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2

SCHEDULED = "ThreadpoolListener::Record"
INTRA = "tf_numa_-1_Eigen"


def _ours() -> Any:
    """Return tf_malleable, which stock TensorFlow has no part of."""
    import tf_malleable as tfm

    return tfm


def _tasks() -> int:
    # A task may be counted only after whoever waited for it goes on.
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        pools = [pool for pool in _ours().pools() if pool.name == INTRA]
        if not any(pool.active or pool.queued for pool in pools):
            break
        time.sleep(0.001)
    return sum(pool.tasks_run for pool in pools)


def _tasks_of(step: Callable[[], object], times: int = 10) -> float:
    """Return how many tasks of the intra-op pool one step has."""
    for _ in range(3):
        step()
    before = _tasks()
    for _ in range(times):
        step()
    return (_tasks() - before) / times


def _steps() -> dict[str, Callable[[], object]]:
    left, right = tf.random.normal((512, 512)), tf.random.normal((512, 512))
    bias = tf.random.normal((512,))
    # On a CPU with AVX-512 oneDNN cuts a plain product of 512 × 512 in two, whatever the limit.
    large = tf.random.normal((1024, 1024))
    images = tf.random.normal((4, 32, 32, 32))
    kernel = tf.random.normal((3, 3, 32, 32))

    @tf.function
    def dense() -> tf.Tensor:
        return tf.nn.relu(tf.nn.bias_add(tf.matmul(left, right), bias))

    @tf.function
    def conv() -> tf.Tensor:
        return tf.nn.relu(tf.nn.conv2d(images, kernel, 1, "SAME"))

    @tf.function
    def matmul() -> tf.Tensor:
        return tf.matmul(large, large)

    return {"dense": dense, "conv": conv, "matmul": matmul}


def tasks_by_limit(limits: list[int]) -> dict[str, list[float]]:
    """Return the tasks of one step of each kind, for each limit in turn."""
    found: dict[str, list[float]] = {}
    for name, step in _steps().items():
        found[name] = []
        for limit in limits:
            _ours().set_threads(limit)
            found[name].append(_tasks_of(step))
    return found


@contextmanager
def _verbose() -> Iterator[list[str]]:
    """Collect what oneDNN says meanwhile; ONEDNN_VERBOSE must be set."""
    lines: list[str] = []
    kept = os.dup(1)
    with tempfile.TemporaryFile("w+") as file:
        os.dup2(file.fileno(), 1)
        try:
            yield lines
        finally:
            os.dup2(kept, 1)
            os.close(kept)
            file.seek(0)
            lines += file.read().splitlines()


def plans_by_limit(limits: list[int]) -> dict[str, list[int]]:
    """Return how many plans oneDNN makes anew in ten steps, for each limit in turn."""
    found: dict[str, list[int]] = {}
    for name, step in _steps().items():
        found[name] = []
        for limit in limits:
            _ours().set_threads(limit)
            with _verbose() as lines:
                for _ in range(10):
                    step()
            found[name].append(sum("create:cache_miss" in line for line in lines))
    return found


def results_while_limits_change(capacity: int, changes: int) -> dict[str, Any]:
    """Compute the same while limits change; return what differed."""
    steps = _steps()
    expected = {name: np.asarray(step()) for name, step in steps.items()}
    over, changed = threading.Event(), 0

    def change() -> None:
        nonlocal changed
        random = np.random.default_rng(3)
        while not over.is_set():
            _ours().set_threads(intra=int(random.integers(1, capacity + 1)))
            changed += 1
            over.wait(0.0002)

    thread = threading.Thread(target=change)
    thread.start()
    wrong, rounds = [], 0
    while changed < changes:
        for name, step in steps.items():
            if not np.allclose(np.asarray(step()), expected[name], rtol=1e-4, atol=1e-3):
                wrong.append(name)
        rounds += 1
    over.set()
    thread.join()
    return {"wrong": wrong, "rounds": rounds, "changes": changed}


def tasks_traced(times: int = 4) -> dict[str, float]:
    """Return how many tasks one step of each kind schedules to thread pools, as TensorFlow says."""
    values = tf.random.normal((1_000_000,))
    others = {
        "elementwise": tf.function(lambda: tf.tanh(values)),
        "reduction": tf.function(lambda: tf.reduce_sum(values)),
    }
    found = {}
    for name, step in (_steps() | others).items():
        for _ in range(3):
            step()
        with tempfile.TemporaryDirectory() as folder:
            tf.profiler.experimental.start(folder)
            for _ in range(times):
                step()
            tf.profiler.experimental.stop()
            (file,) = Path(folder).rglob("*.xplane.pb")
            space = xplane_pb2.XSpace.FromString(file.read_bytes())
        scheduled = sum(
            plane.event_metadata[event.metadata_id].name.startswith(SCHEDULED)
            for plane in space.planes
            for line in plane.lines
            for event in line.events
        )
        found[name] = scheduled / times
    return found


def memory_of_bincount() -> dict[str, int]:
    """Return by how many bytes a count of a million bins raises the most memory in use."""
    values = tf.random.uniform((1_000_000,), maxval=1_000_000, dtype=tf.int32)
    np.asarray(values)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    counted = tf.math.bincount(values, minlength=1_000_000, maxlength=1_000_000)
    assert int(tf.reduce_sum(counted)) == 1_000_000
    return {"bytes": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024}


def threads_of_process() -> dict[str, int]:
    """Return the number of threads after each kind of pool was used."""
    for step in _steps().values():
        step()
    list(tf.data.Dataset.range(4).map(lambda x: x + 1, num_parallel_calls=2))
    return {"threads": len(os.listdir("/proc/self/task"))}


def pools_of_sessions() -> list[tuple[str, str, int]]:
    """Return name, kind and limit of the pools of a session with some of its own."""
    _ours().set_threads(intra=3, inter=2)
    config = tf.compat.v1.ConfigProto()
    config.session_inter_op_thread_pool.add(num_threads=4)
    config.session_inter_op_thread_pool.add(num_threads=4, global_name="shared")
    with tf.Graph().as_default(), tf.compat.v1.Session(config=config) as session:
        total = tf.add_n([tf.ones((64, 64)) for _ in range(8)])
        for pool in (0, 1):
            options = tf.compat.v1.RunOptions(inter_op_thread_pool=pool)
            session.run(total, options=options)
        return [(pool.name, pool.kind, pool.limit) for pool in _ours().pools()]


def still_computes() -> dict[str, Any]:
    """Return a result, and the capacities of the pools, where threads are scarce."""
    for _ in range(2):
        results = {name: float(tf.reduce_sum(step())) for name, step in _steps().items()}
        _ours().set_threads(_ours().get_threads().intra)
    return {
        "finite": bool(np.isfinite(list(results.values())).all()),
        "capacities": {pool.name: pool.capacity for pool in _ours().pools()},
    }
