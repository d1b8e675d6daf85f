# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""State of thread pools at one instant, and their limits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

PoolKind = Literal["intra_op", "inter_op", "other"]
Follows = Literal["free", "at op boundaries", "shrink only", "confined only"]


@dataclass(frozen=True)
class Pool:
    """The state of one thread pool, from :func:`tf_malleable.pools`.

    Attributes:
        id: Number of the pool; never reused in a process.
        name: Name of its threads, for example ``"tf_Compute"``.
        kind: ``"intra_op"`` (threads inside one op), ``"inter_op"`` (ops run
            side by side) or ``"other"``, which follows the intra-op limit.
        follows: How it follows the limit, as for an :class:`OpenMPLibrary`: ``"free"``, from
            task to task.
        capacity: Number of worker threads that the pool can have. It decreases only if the
            system refuses to start a thread.
        limit: Number of workers that may run tasks; 1 … capacity.
        active: Number of workers running a task at that instant.
        queued: Approximate number of waiting tasks.
        tasks_run: Number of tasks finished since the pool was built.
        stand_in_tasks: Number of these tasks that ran above the limit because all admitted
            workers had been asleep in a task for a second.
        busy_seconds: Time spent in tasks in seconds, summed over workers.
    """

    id: int
    name: str
    kind: PoolKind
    follows: Follows
    capacity: int
    limit: int
    active: int
    queued: int
    tasks_run: int
    stand_in_tasks: int
    busy_seconds: float


@dataclass(frozen=True)
class OpenMPLibrary:
    """A library that computes with OpenMP, or an OpenBLAS or BLIS.

    From :func:`tf_malleable.openmp_libraries`.

    Attributes:
        path: Path of the library.
        follows: How its teams of threads follow the limit: ``"free"``, at once; ``"at op
            boundaries"``, from the next operation on; ``"shrink only"``, at once, but within an
            operation not above the number that this began with; ``"confined only"``, not at all:
            only its CPUs change.
        limit: Highest number of threads that a new team has.
        capacity: Highest limit.
    """

    path: str
    follows: Follows
    limit: int
    capacity: int


@dataclass(frozen=True)
class ThreadLibrary:
    """A library with threads of its own, as a process has loaded it, seen from outside.

    Attributes:
        name: Its name.
        follows: How its threads follow the CPUs of the process, as for an :class:`OpenMPLibrary`.
        capacity: Highest number of threads that it can be limited to; None if it follows no limit.
        bound: Upper bound that the user gives; None for none.
    """

    name: str
    follows: Follows
    capacity: int | None = None
    bound: int | None = None


@dataclass(frozen=True)
class Threads:
    """Thread limits of a process; None while TensorFlow has no such pool.

    Attributes:
        intra: Intra-op limit: threads inside one op.
        inter: Inter-op limit: ops run side by side.
    """

    intra: int | None
    inter: int | None
