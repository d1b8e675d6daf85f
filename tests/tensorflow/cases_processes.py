# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Children by fork and spawn, and the ways a process may end."""

import multiprocessing
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from cases_spawned import in_child, some_work

# None where stock TensorFlow runs.
tfm = sys.modules.get("tf_malleable")


def child_of_multiprocessing(method: str) -> dict[str, Any]:
    """Start a child with a limit set here; TensorFlow has run nothing here yet."""
    context = multiprocessing.get_context(method)
    tfm.set_threads(5)
    results = context.Queue()
    child = context.Process(target=in_child, args=[results])
    child.start()
    found = results.get()
    child.join()
    return {**found, "exitcode": child.exitcode, "work_here": some_work()}


def forked_while_limits_change(capacity: int, forks: int) -> dict[str, Any]:
    """Fork from a process that uses TensorFlow; children only call tf_malleable."""
    some_work()
    stop = threading.Event()

    def change() -> None:
        rng = random.Random(3)
        while not stop.is_set():
            tfm.set_threads(rng.randint(1, capacity))

    changer = threading.Thread(target=change)
    changer.start()
    codes = []
    for _ in range(forks):
        pid = os.fork()
        if pid == 0:
            os._exit(_calls_of_a_forked_child())
        codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    stop.set()
    changer.join()
    return {"codes": codes, "pools_here": len(tfm.pools()), "work_here": some_work()}


def _calls_of_a_forked_child() -> int:
    try:
        tfm.set_threads(3)
        now = tfm.get_threads()
        fine = tfm.pools() == [] and tfm.wait_settled(1) and (now.intra, now.inter) == (3, 3)
        with tfm.threads(2):
            fine = fine and tfm.get_threads().intra == 2
    except BaseException:
        return 2
    return 0 if fine else 1


def _limit(threads: int) -> None:
    if tfm is not None:
        tfm.set_threads(threads)


def _end_parked() -> None:
    _limit(16)
    some_work()
    _limit(1)
    some_work()


def _end_parked_from_the_start() -> None:
    _limit(1)
    some_work()


def _end_with_tasks_running() -> None:
    _limit(16)

    def task(x: np.ndarray) -> np.ndarray:
        time.sleep(0.05)
        return x

    data = tf.data.Dataset.range(10**6).map(
        lambda x: tf.numpy_function(task, [x], tf.int64), num_parallel_calls=32
    )
    options = tf.data.Options()
    options.threading.private_threadpool_size = 16
    iterator = iter(data.with_options(options).prefetch(4))
    next(iterator)
    globals()["_kept_alive"] = iterator
    _limit(1)
    next(iterator)


def _end_with_ops_running() -> None:
    _limit(16)
    big = tf.ones((1500, 1500))

    def work() -> None:
        for _ in range(3):
            tf.matmul(big, big)

    for _ in range(4):
        threading.Thread(target=work).start()
    time.sleep(0.05)
    _limit(1)


def _end_with_a_daemon_waiting() -> None:
    _end_with_tasks_running()

    def wait() -> None:
        while tfm is not None:
            tfm.wait_settled(0.001)

    threading.Thread(target=wait, daemon=True).start()
    time.sleep(0.05)


ENDINGS: dict[str, Callable[[], None]] = {
    "parked": _end_parked,
    "parked_from_the_start": _end_parked_from_the_start,
    "tasks_running": _end_with_tasks_running,
    "ops_running": _end_with_ops_running,
    "daemon_waiting": _end_with_a_daemon_waiting,
}


def end(how: str) -> dict[str, Any]:
    ENDINGS[how]()
    if tfm is None:
        return {"limits": None}
    return {"limits": [[pool.limit, pool.capacity] for pool in tfm.pools()]}
