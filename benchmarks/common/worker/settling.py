# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How long set_threads takes, and how long until the new limit holds.

Imported by a worker only, after tf_malleable.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

import numpy as np
import tensorflow as tf

import tf_malleable as tfm

# Between changes: long enough for workers to park, or to be well into a task.
_IDLE_PAUSE = 0.001
_LOADED_PAUSES = (0.001, 0.0045, 0.013)
_FUNCTION_SECONDS = 0.02
_SETTLE_TIMEOUT = 5.0

Interval = tuple[float, float]


def calls(changes: int, loaded: bool) -> list[float]:
    """Return how long each of so many calls took that changed both limits."""
    seconds = []
    with _running(_one_matmul() if loaded else None):
        for number in range(changes):
            time.sleep(_IDLE_PAUSE)
            threads = 1 + number % 2
            start = time.perf_counter_ns()
            tfm.set_threads(threads)
            seconds.append((time.perf_counter_ns() - start) / 1e9)
    tfm.set_threads(2)
    return seconds


def settles(changes: int, load: str) -> dict[str, object]:
    """Return when each lowering of 2 to 1 was made and held, and all tasks of the load.

    Load: "none"; "intra-op", one matmul after the other; "inter-op", Python functions
    of known length side by side. Times are those of time.perf_counter.
    """
    tasks: list[Interval] = []
    pauses = itertools.cycle([_IDLE_PAUSE] if load == "none" else _LOADED_PAUSES)
    lowered: list[Interval] = []
    with _running(_load(load, tasks)):
        for pause in itertools.islice(pauses, changes):
            tfm.set_threads(2)
            # All of the load is to be under way on two threads again.
            time.sleep(_IDLE_PAUSE if load == "none" else 2 * _FUNCTION_SECONDS)
            time.sleep(pause)
            tfm.set_threads(1)
            start = time.perf_counter()
            if not tfm.wait_settled(_SETTLE_TIMEOUT):
                raise TimeoutError(f"not settled after {_SETTLE_TIMEOUT} s under load {load}")
            lowered.append((start, time.perf_counter()))
    tfm.set_threads(2)
    return {"lowered": lowered, "tasks": tasks}


def _load(name: str, tasks: list[Interval]) -> Callable[[], object] | None:
    if name == "none":
        return None
    return _one_matmul(tasks) if name == "intra-op" else _functions(tasks)


def _one_matmul(tasks: list[Interval] | None = None) -> Callable[[], object]:
    """Return a load of one op whose tasks are all in the intra-op pool."""
    values = tf.random.normal((1536, 1536))

    def run() -> None:
        start = time.perf_counter()
        tf.matmul(values, values)
        if tasks is not None:
            tasks.append((start, time.perf_counter()))

    return run


def _functions(tasks: list[Interval]) -> Callable[[], object]:
    """Return a load of four ops that could all run side by side in the inter-op pool."""

    def sleep(value: np.ndarray) -> np.ndarray:
        start = time.perf_counter()
        time.sleep(_FUNCTION_SECONDS)
        tasks.append((start, time.perf_counter()))
        return value

    @tf.function
    def run(value: tf.Tensor) -> tf.Tensor:
        # Stateful ones would run one after the other, as one long task. Different
        # inputs, or they would be taken for the same.
        return tf.add_n(
            [tf.numpy_function(sleep, [value + i], tf.float32, stateful=False) for i in range(4)]
        )

    zero = tf.zeros(())
    return lambda: run(zero)


def under_matmuls() -> AbstractContextManager[None]:
    """Run one matmul after the other meanwhile."""
    return _running(_one_matmul())


@contextmanager
def _running(load: Callable[[], object] | None) -> Iterator[None]:
    """Repeat the load in a thread meanwhile."""
    if load is None:
        yield
        return
    load()
    over = threading.Event()

    def repeat() -> None:
        while not over.is_set():
            load()

    thread = threading.Thread(target=repeat)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
