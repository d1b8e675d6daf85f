# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Runs the workloads: on stock TensorFlow, and with limits changing under them."""

import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import per_worker_ops
import tensorflow as tf
import workloads
from workloads import Workload

WORKLOADS = {
    "keras_cnn": Workload(workloads.keras_cnn, 1e-4),
    "keras_lstm": Workload(workloads.keras_lstm, 1e-4),
    "while_loop": Workload(workloads.while_loop),
    "tf_data": Workload(workloads.tf_data, pools=("tf_data_private_threadpool",)),
    "xla_jit": Workload(workloads.xla_jit, pools=("tf_numa_-1_Eigen",)),
    "counting_ops": Workload(per_worker_ops.counting, pools=("tf_numa_-1_Eigen",)),
    "sharding_ops": Workload(per_worker_ops.sharding, pools=("tf_numa_-1_Eigen",)),
    "sparse_csr_ops": Workload(per_worker_ops.sparse_csr, pools=("tf_numa_-1_Eigen",)),
    "saved_model": Workload(workloads.saved_model),
    "mirrored_strategy": Workload(workloads.mirrored_strategy),
    "v1_session": Workload(workloads.v1_session),
    "nested_functions": Workload(workloads.nested_functions),
}

# Waiting 5 ms for the GIL would leave few changes for a round.
_SWITCH_INTERVAL = 0.0002
# Changes come in bursts, and between bursts pools get some way towards the new limit.
_PAUSES = (0.0, 0.0, 0.0003)


def _two_cpus() -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)


def _file(folder: str, name: str) -> Path:
    return Path(folder, f"{name}.npz")


def stock_results(folder: str) -> list[str]:
    """Write what each workload returns where nothing of ours is loaded."""
    assert "tf_malleable" not in sys.modules
    _two_cpus()
    for name, workload in WORKLOADS.items():
        np.savez(_file(folder, name), **workload.build()())
    return list(WORKLOADS)


class _Disturber(threading.Thread):
    """Sets random limits while a round runs, and counts those that took effect."""

    def __init__(self, capacity: int, seed: int) -> None:
        super().__init__(daemon=True)
        self.round_runs = threading.Event()
        self.changes = 0
        self.seen: dict[str, Counter[int]] = {"intra": Counter(), "inter": Counter()}
        self.refused: list[str] = []
        self.census = _Census()
        self._capacity, self._random = capacity, random.Random(seed)

    def run(self) -> None:
        import tf_malleable as tfm

        before = tfm.get_threads()
        while True:
            self.round_runs.wait()
            wanted = [self._random.randint(1, self._capacity) for _ in range(2)]
            tfm.set_threads(intra=wanted[0], inter=wanted[1])
            now = tfm.get_threads()
            if [now.intra, now.inter] != wanted:
                self.refused.append(f"{now}, not {wanted}")
            self.changes += now != before
            self.seen["intra"][now.intra] += 1
            self.seen["inter"][now.inter] += 1
            before = now
            if self.changes % 10 == 0:
                self.census.take()
            time.sleep(self._random.choice(_PAUSES))


class _Census:
    """Adds up what pools have done, those that are gone included."""

    def __init__(self) -> None:
        self._pools: dict[int, Any] = {}

    def take(self) -> None:
        import tf_malleable as tfm

        self._pools.update((pool.id, pool) for pool in tfm.pools())

    def tasks(self, name: str) -> int:
        return sum(pool.tasks_run for pool in self._pools.values() if pool.name == name)

    def stand_ins(self) -> int:
        return sum(pool.stand_in_tasks for pool in self._pools.values())


def under_changing_limits(
    name: str, folder: str, capacity: int, changes: int
) -> Iterator[dict[str, Any]]:
    """Run one workload undisturbed, then disturbed, then with sudden drops to 1."""
    sys.setswitchinterval(_SWITCH_INTERVAL)
    _two_cpus()
    workload = WORKLOADS[name]
    expected = np.load(_file(folder, name))
    one_round = workload.build()

    def wrong() -> list[str]:
        return workload.differences(one_round(), expected)

    began = time.monotonic()
    yield {"undisturbed": {"wrong": wrong()}, "seconds": time.monotonic() - began}
    yield {"disturbed": _disturbed(wrong, capacity, changes, workload.pools)}
    yield {"dropped": _dropped(wrong, capacity)}


def _disturbed(
    wrong: Callable[[], list[str]], capacity: int, changes: int, pools: tuple[str, ...]
) -> dict[str, Any]:
    disturber = _Disturber(capacity, seed=capacity + changes)
    disturber.start()
    earlier = _Census()
    earlier.take()
    problems: list[str] = []
    rounds, began = 0, time.monotonic()
    while (disturber.changes < changes or rounds < 3) and not problems:
        disturber.round_runs.set()
        problems = wrong()
        disturber.round_runs.clear()
        rounds += 1
    census = disturber.census
    census.take()
    return {
        "wrong": problems,
        "rounds": rounds,
        "changes": disturber.changes,
        "seen": {kind: sorted(counts) for kind, counts in disturber.seen.items()},
        "refused": disturber.refused[:5],
        "tasks": {pool: census.tasks(pool) - earlier.tasks(pool) for pool in pools},
        "stand_ins": census.stand_ins(),
        "seconds": time.monotonic() - began,
    }


def _dropped(wrong: Callable[[], list[str]], capacity: int) -> dict[str, Any]:
    """Drop from all threads to one in the middle of a round, then stay there."""
    import tf_malleable as tfm

    tfm.set_threads(capacity)
    began = time.monotonic()
    problems = wrong()
    usual = time.monotonic() - began
    drops, limits_after, census = 0, [], _Census()
    for part in (0.1, 0.3, 0.5, 0.7):
        tfm.set_threads(capacity)
        timer = threading.Timer(part * usual, tfm.set_threads, [1])
        timer.start()
        problems += wrong()
        timer.join()
        drops += 1
        problems += wrong()
        census.take()
        limits_after.append([pool.limit for pool in tfm.pools()])
    return {
        "wrong": problems,
        "drops": drops,
        "limits_after": limits_after,
        "settled": tfm.wait_settled(5),
        "stand_ins": census.stand_ins(),
        "seconds": time.monotonic() - began,
    }
