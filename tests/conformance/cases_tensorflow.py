# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What the ABI promises about the pools of the TensorFlow in this process.

TensorFlow is started with 2 threads and room for 16.
"""

from __future__ import annotations

import importlib
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.conformance import abi
from tests.conformance.abi import Library
from tests.tensorflow.quick_import import quick_imports


def _tensorflow() -> Any:
    # Only here, as the library may have to be there first.
    with quick_imports():
        return importlib.import_module("tensorflow")


@contextmanager
def running(*steps: Callable[[], object]) -> Iterator[None]:
    """Repeat each step in a thread of its own for as long as the block takes."""

    def repeat(step: Callable[[], object]) -> None:
        while not over.is_set():
            step()

    over = threading.Event()
    threads = [threading.Thread(target=repeat, args=(step,)) for step in steps]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        over.set()
        for thread in threads:
            thread.join()


def _tasks_when_idle(library: Library) -> int:
    """Return how many tasks the intra-op pool has run, once it has none left.

    An op does not wait for helpers that found nothing to do any more.
    """
    deadline = time.monotonic() + 30
    while (pool := library.pool(abi.INTRA_OP)).queued or pool.active:
        assert time.monotonic() < deadline, "the pool does not become idle"
        time.sleep(0.001)
    return int(pool.tasks)


def pools_are_listed(library: Library) -> None:
    tf = _tensorflow()

    tf.linalg.matmul(tf.ones((8, 8)), tf.ones((8, 8)))
    pools = library.get_pools()
    assert library.count_pools() == len(pools)
    assert len({pool.id for pool in pools}) == len(pools)
    for kind in (abi.INTRA_OP, abi.INTER_OP):
        pool = library.pool(kind)
        assert (pool.capacity, pool.limit) == (16, 2)
        assert pool.name.startswith(b"tf_")
    assert len(library.get_pools(room=1)) == 1
    threads = library.get_threads()
    assert (threads.intra, threads.inter, threads.intra_set) == (2, 2, 0)


def limits_reach_every_pool(library: Library) -> None:
    tf = _tensorflow()

    tf.ones(1).numpy()
    for intra, inter in ((1, 3), (16, 1), (5, 16)):
        assert library.set_threads(intra, inter) == abi.SUCCESS
        for pool in library.get_pools():
            wanted = inter if pool.kind == abi.INTER_OP else intra
            assert pool.limit == min(wanted, pool.capacity)
    assert library.set_threads(abi.UNSET, abi.UNSET) == abi.SUCCESS
    assert library.pool(abi.INTRA_OP).limit == 2


def one_pool_has_a_limit_of_its_own(library: Library) -> None:
    tf = _tensorflow()

    tf.ones(1).numpy()
    pool = library.pool(abi.INTRA_OP)
    assert library.set_pool_threads(pool.id, 7) == abi.SUCCESS
    assert library.set_pool_threads(pool.id, 7) == abi.NO_CHANGE
    for limit in (0, -1, 17):
        assert library.set_pool_threads(pool.id, limit) == abi.ERR_RANGE
    assert library.pool(abi.INTRA_OP).limit == 7
    assert library.pool(abi.INTER_OP).limit == 2
    assert library.set_threads(3, abi.KEEP) == abi.SUCCESS
    assert library.pool(abi.INTRA_OP).limit == 3


def active_workers_never_exceed_the_limit(library: Library) -> None:
    tf = _tensorflow()

    values = tf.random.normal((512, 512))

    @tf.function
    def plain() -> tf.Tensor:
        product = tf.matmul(values, values)
        return tf.add_n([tf.tanh(product + float(n)) for n in range(4)])

    @tf.function(jit_compile=True)
    def compiled() -> tf.Tensor:
        return tf.tanh(tf.matmul(values, values))

    seen = 0
    with running(plain, plain, compiled):
        for limit in (16, 1, 8, 2, 1, 16, 3):
            library.set_threads(limit, limit)
            assert library.wait_settled(30) == abi.SUCCESS
            for _ in range(200):
                for pool in library.get_pools():
                    assert pool.active <= pool.limit <= limit, (pool.name, pool.active, limit)
                    seen = max(seen, pool.active)
                time.sleep(0.0005)
    assert seen >= 2, "no pool ever had two workers active, so nothing was shown"


def results_do_not_change(library: Library) -> None:
    import numpy as np

    tf = _tensorflow()

    random.seed(1)
    values = tf.random.stateless_normal((256, 256), seed=(1, 2))

    @tf.function
    def step(values: tf.Tensor) -> tf.Tensor:
        for _ in range(10):
            values = tf.tanh(tf.matmul(values, values) / 16)
        return tf.sort(values, axis=1)

    expected = step(values).numpy()

    def change() -> None:
        library.set_threads(random.randint(1, 16), random.randint(1, 16))

    with running(change):
        for _ in range(100):
            np.testing.assert_array_equal(step(values).numpy(), expected)


def each_way_to_split_work_follows_the_limit(library: Library) -> None:
    """At limit 1 the caller does all of an op's work itself; above it, workers help."""
    tf = _tensorflow()

    values = tf.random.normal((1024, 1024))
    ways = {
        "a device of Eigen's": lambda: tf.tanh(values),
        "oneDNN's view of the pool": lambda: tf.matmul(values, values),
        "Shard": lambda: tf.random.normal((1024, 1024)),
    }
    for name, run in ways.items():
        run().numpy()
        tasks = {}
        for limit in (1, 2):
            library.set_threads(limit, abi.KEEP)
            before = _tasks_when_idle(library)
            for _ in range(20):
                run().numpy()
            tasks[limit] = _tasks_when_idle(library) - before
        assert tasks[1] == 0, (name, tasks)
        assert tasks[2] >= 10, (name, tasks)


def a_pool_that_went_is_no_pool(library: Library) -> None:
    tf = _tensorflow()

    before = {pool.id for pool in library.get_pools()}
    options = tf.data.Options()
    options.threading.private_threadpool_size = 3
    numbers = iter(tf.data.Dataset.range(1 << 20).map(lambda x: x + 1).with_options(options))
    next(numbers)
    private = {pool.id: pool for pool in library.get_pools() if pool.capacity == 3}
    private = {number: pool for number, pool in private.items() if number not in before}
    assert private
    del numbers
    deadline = time.monotonic() + 30
    while set(private) & {pool.id for pool in library.get_pools()}:
        assert time.monotonic() < deadline, "the private pool does not go"
        time.sleep(0.01)
    for number in private:
        assert library.set_pool_threads(number, 1) == abi.ERR_NO_POOL
