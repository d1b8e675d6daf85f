# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The Python API on TensorFlow's own pools."""

import multiprocessing
import os
import resource
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tensorflow as tf
import threadpoolctl

import tf_malleable as tfm
from tf_malleable.runtime import limits


def _by_kind() -> dict[str, int]:
    return {pool.kind: pool.limit for pool in tfm.pools() if pool.kind != "other"}


def _work() -> tf.Tensor:
    x = tf.ones((700, 700))
    return tf.reduce_sum(tf.exp(tf.matmul(x, x) * 1e-4))


def threads_for_a_while() -> dict[str, Any]:
    """Return the limits seen inside and outside, and whether results stay the same."""
    expected, seen = float(_work()), {}
    seen["at start"] = _by_kind()
    with tfm.threads(5) as now:
        seen["yielded"] = [now.intra, now.inter]
        seen["inside"] = _by_kind()
        with tfm.threads(intra=1):
            seen["nested"] = _by_kind()
            same = float(_work()) == expected
        seen["after nested"] = _by_kind()
    seen["after"] = _by_kind()

    @tfm.threads(3)
    def decorated(again: bool) -> None:
        seen["decorated"] = _by_kind()
        if again:
            decorated(False)
            seen["decorated, recursive"] = _by_kind()

    decorated(True)
    try:
        with tfm.threads(inter=7):
            raise KeyError
    except KeyError:
        seen["after an error"] = _by_kind()
    return {"seen": seen, "same": same, "work": expected, "settled": tfm.wait_settled(5)}


def one_pool(capacity: int) -> dict[str, Any]:
    """Limit one pool by its id."""
    _work()
    first, second = tfm.pools()[:2]
    tfm.set_threads(4)
    tfm.set_pool_threads(first.id, capacity)
    alone = _by_kind()
    tfm.set_threads(intra=2)
    return {
        "kinds": [first.kind, second.kind],
        "follows": [first.follows, second.follows],
        "alone": alone,
        "then": _by_kind(),
    }


def _affinities() -> set[str]:
    found = set()
    for task in Path("/proc/self/task").iterdir():
        try:
            status = (task / "status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            continue
        found.add(status.split("Cpus_allowed_list:")[1].split()[0])
    return found


def one_cpu() -> dict[str, Any]:
    """Confine this process, with pools at work and more of them to come."""
    allowed = sorted(os.sched_getaffinity(0))
    stop = threading.Event()

    def compute() -> None:
        while not stop.is_set():
            _work()

    workers = [threading.Thread(target=compute) for _ in range(3)]
    for worker in workers:
        worker.start()
    time.sleep(0.5)
    before = _affinities()
    cpu = allowed[-1]
    tfm.set_cpuset({cpu})
    at_once = _affinities()
    used = {pool.kind: pool.limit for pool in tfm.pools()}
    began, cpu_began = time.monotonic(), _cpu_seconds()
    data = tf.data.Dataset.range(64).map(lambda x: x + 1, num_parallel_calls=8)
    options = tf.data.Options()
    options.threading.private_threadpool_size = 8
    iterator = iter(data.with_options(options))
    next(iterator)
    extra = threading.Thread(target=time.sleep, args=[1])
    extra.start()
    time.sleep(1)
    cpus_used = (_cpu_seconds() - cpu_began) / (time.monotonic() - began)
    later = _affinities()
    private = [pool.limit for pool in tfm.pools() if "private" in pool.name]
    del iterator
    tfm.set_cpuset(allowed)
    widened = _affinities()
    stop.set()
    for thread in [*workers, extra]:
        thread.join()
    return {
        "cpu": str(cpu),
        "cpus": len(allowed),
        "before": sorted(before),
        "at_once": sorted(at_once),
        "later": sorted(later),
        "widened": sorted(widened),
        "limits": used,
        "private": private,
        "cpus_used": cpus_used,
        "limits_after": _by_kind(),
    }


def _cpu_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def with_threadpoolctl() -> dict[str, Any]:
    """Limit TensorFlow by threadpoolctl, which knows it under a user API of its own."""

    def info() -> list[dict[str, Any]]:
        return [one for one in threadpoolctl.threadpool_info() if one["user_api"] == "tensorflow"]

    _work()
    tfm.set_threads(intra=6, inter=9)
    start = info()
    with threadpoolctl.threadpool_limits(2):
        inside, inside_info = _by_kind(), info()
        _work()
    after = _by_kind()
    with threadpoolctl.threadpool_limits(1, user_api="tensorflow"):
        only = _by_kind()
    with threadpoolctl.threadpool_limits(1, user_api="blas"):
        others = _by_kind()
    with threadpoolctl.threadpool_limits(10_000, user_api="tensorflow"):
        most = _by_kind()
    return {
        "start": start,
        "inside": inside,
        "inside_info": inside_info,
        "after": after,
        "only": only,
        "others": others,
        "most": most,
        "end": _by_kind(),
    }


def with_scikit_learn(rounds: int) -> dict[str, Any]:
    """Fit in threads, which share scikit-learn's controller of thread pools, between grants."""
    import numpy as np
    from sklearn.cluster import KMeans
    from sklearn.utils.parallel import _get_threadpool_controller

    points = np.random.default_rng(1).normal(size=(400, 3))
    controller = _get_threadpool_controller()
    seen = []

    def fit(number: int) -> None:
        KMeans(3, n_init=1, max_iter=5, random_state=number).fit(points)
        with controller.limit(limits=1 + number % 3):
            KMeans(3, n_init=1, max_iter=5, random_state=number).fit(points)

    with ThreadPoolExecutor(4) as executor:
        for number in range(rounds):
            granted = 2 + number % 5
            fits = [executor.submit(fit, number + other) for other in range(6)]
            limits.set_by_grant(granted)
            for each in fits:
                each.result()
            now = tfm.get_threads()
            seen.append([granted, now.intra, now.inter])
    return {"seen": seen}


def forked_from_a_thread() -> dict[str, Any]:
    """Fork in a thread, while it has a limit for a while, and others have."""
    tfm.set_threads(7)
    entered, leave = threading.Event(), threading.Event()
    ended = []

    def other() -> None:
        with tfm.threads(1):
            entered.set()
            leave.wait()

    def limit_and_end() -> None:
        block = tfm.threads(inter=5)
        block.__enter__()
        ended.append(block)

    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)

    def child() -> None:
        now = tfm.get_threads()
        sender.send([now.intra, now.inter])

    limiting = threading.Thread(target=limit_and_end)
    limiting.start()
    limiting.join()
    with tfm.threads(intra=3):
        threading.Thread(target=other).start()
        entered.wait()
        process = context.Process(target=child)
        process.start()
        in_child = receiver.recv()
        process.join()
    leave.set()
    return {"in_child": in_child}
