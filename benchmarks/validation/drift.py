# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How fast the machine is at a time: on a virtual one, what others do makes a difference."""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from statistics import median
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tf_malleable.api.history import History
    from tf_malleable.simulate.task import Task

# About a third of a second of a core.
_ROUNDS: Final = 110
# What has just ended may still have something to do.
_TIMES: Final = 9
_SIDE: Final = 512


@dataclass(frozen=True)
class Run:
    """What was recorded of a live run.

    Attributes:
        history: Its jobs.
        probe_seconds: What the same piece of work took just before and after it, in the mean.
    """

    history: History
    probe_seconds: float


def probe() -> float:
    """Return the seconds that a piece of work takes on all CPUs at once: the median of several.

    It is what trainings do for most of their time: multiply matrices, and move them.
    """
    import numpy as np
    from threadpoolctl import threadpool_limits

    def work(seed: int) -> None:
        one = np.random.default_rng(seed).random((_SIDE, _SIDE), dtype=np.float32)
        large = np.zeros((8, _SIDE, _SIDE), dtype=np.float32)
        for _ in range(_ROUNDS):
            large[:] = one @ one

    cpus = len(os.sched_getaffinity(0))
    with threadpool_limits(1), ThreadPoolExecutor(cpus) as pool:
        taken = []
        for _ in range(_TIMES):
            begin = time.monotonic()
            list(pool.map(work, range(cpus)))
            taken.append(time.monotonic() - begin)
        return median(taken)


def slowed(tasks: Sequence[Task], factor: float) -> list[Task]:
    """Return the tasks of a machine on which all computing takes `factor` times as long.

    Waits for input take as long as before.
    """
    return [
        replace(
            task,
            seconds=task.seconds * factor,
            starting=task.starting * factor,
            ending=task.ending * factor,
            busy=task.busy * factor,
        )
        for task in tasks
    ]
