# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A model of TensorFlow Lite, in a process with TensorFlow."""

import os
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

import tf_malleable as tfm

ROWS, COLUMNS = 64, 512


def _whole_numbers(*shape: int) -> np.ndarray:
    """Return small whole numbers: products of them are exact in any order."""
    return np.random.default_rng(sum(shape)).integers(-3, 4, shape).astype(np.float32)


def _dense(weights: np.ndarray) -> bytes:
    """Return a model that multiplies its input by these weights."""
    spec = tf.TensorSpec((ROWS, COLUMNS), tf.float32)
    function = tf.function(lambda x: tf.matmul(x, weights), input_signature=[spec])
    owner = tf.Module()
    owner.function = function
    concrete = function.get_concrete_function()
    return tf.lite.TFLiteConverter.from_concrete_functions([concrete], owner).convert()


def _threads() -> set[int]:
    return {int(name) for name in os.listdir("/proc/self/task")}


def _seconds(thread: int) -> float:
    """Return how long a thread has run."""
    return int(Path(f"/proc/self/task/{thread}/schedstat").read_text().split()[0]) / 1e9


def threads_of_an_interpreter(threads: int, runs: int) -> dict[str, Any]:
    """Run a model with this many threads while TensorFlow has a limit of one, and others."""
    weights, x = _whole_numbers(COLUMNS, COLUMNS), _whole_numbers(ROWS, COLUMNS)
    expected = x @ weights
    model = _dense(weights)
    assert np.array_equal(tf.matmul(x, weights).numpy(), expected)
    tfm.set_threads(1)
    settled = tfm.wait_settled(10)
    before = _threads()
    interpreter = tf.lite.Interpreter(model_content=model, num_threads=threads)
    interpreter.allocate_tensors()
    (source,), (target,) = interpreter.get_input_details(), interpreter.get_output_details()

    def is_right() -> bool:
        interpreter.set_tensor(source["index"], x)
        interpreter.invoke()
        return np.array_equal(interpreter.get_tensor(target["index"]), expected)

    right = [is_right()]
    own = _threads() - before
    tasks = {pool.id: pool.tasks_run for pool in tfm.pools()}
    begun = {thread: _seconds(thread) for thread in own}
    right += [is_right() for _ in range(runs)]
    busy = sum(_seconds(thread) - begun[thread] for thread in own)
    same_tasks = tasks == {pool.id: pool.tasks_run for pool in tfm.pools()}
    for limit in (4, 1, 3, 2):
        tfm.set_threads(limit)
        right += [is_right() for _ in range(runs // 4)]
    return {
        "settled": settled,
        "right": all(right),
        "own": len(own),
        "busy": busy,
        "same_tasks": same_tasks,
        "alive": own <= _threads(),
    }
