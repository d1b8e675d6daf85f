# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pins the workers of the intra-op pool, each to a CPU of its own.

Imported by a worker only.
"""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import tensorflow as tf

_LOOK_SECONDS = 1.0


def intra_op_threads(count: int) -> list[int]:
    """Return the threads that compute most of a large product, other than this one.

    TensorFlow's name for them is too long for the kernel, which has none of them.
    """
    value = tf.random.normal((1024, 1024))
    product = tf.function(lambda: tf.matmul(value, value))
    before, end = _cpu_times(), time.perf_counter() + _LOOK_SECONDS
    while time.perf_counter() < end:
        product()
    after = _cpu_times()
    used = {tid: after[tid] - before.get(tid, 0) for tid in after}
    used.pop(threading.get_native_id())
    return sorted(used, key=lambda tid: -used[tid])[:count]


def pin(threads: list[int], apart: bool) -> None:
    """Let each thread run on one of the process's CPUs in turn, or on all of them."""
    cpus = sorted(os.sched_getaffinity(0))
    for number, thread in enumerate(threads):
        os.sched_setaffinity(thread, {cpus[number % len(cpus)]} if apart else cpus)


def _cpu_times() -> dict[int, int]:
    """Return the CPU time of each thread of this process, in clock ticks."""
    times = {}
    for folder in Path("/proc/self/task").iterdir():
        fields = (folder / "stat").read_text().rpartition(")")[2].split()
        times[int(folder.name)] = int(fields[11]) + int(fields[12])
    return times
