# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One of TensorFlow's thread pools at one instant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PoolKind = Literal["intra_op", "inter_op", "other"]


@dataclass(frozen=True)
class Pool:
    """The state of one thread pool, from :func:`tf_malleable.pools`.

    Attributes:
        id: Number of the pool; never reused in a process.
        name: Name of its threads, for example ``"tf_Compute"``.
        kind: ``"intra_op"`` (threads inside one op), ``"inter_op"`` (ops run
            side by side) or ``"other"``, which follows the intra-op limit.
        capacity: Worker threads the pool can have. Becomes lower only if the system refuses
            to start one.
        limit: How many of these may run tasks; 1 … capacity.
        active: Workers running a task at that instant.
        queued: Tasks waiting, approximately.
        tasks_run: Tasks finished since the pool was built.
        stand_in_tasks: Of these, tasks run above the limit because all admitted
            workers had been asleep in a task for a second.
        busy_seconds: Time spent in tasks, summed over workers.
    """

    id: int
    name: str
    kind: PoolKind
    capacity: int
    limit: int
    active: int
    queued: int
    tasks_run: int
    stand_in_tasks: int
    busy_seconds: float
