# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What people do without a controller: each job has the same cores from its start to its end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from benchmarks.tournament.works import Work, makespan, mean_turnaround, run
from tf_malleable.api.schema.history import JobRecord
from tf_malleable.model import Shape

_IN_ORDER: Final = "fcfs-strict"


def split(works: Sequence[Work], cores: int) -> dict[str, JobRecord]:
    """Return how jobs fare if each has its part of the machine and no more."""
    return _with(works, max(1, cores // len(works)), cores)


def alternatives(works: Sequence[Work], cores: int) -> dict[str, tuple[float, float]]:
    """Return makespan and mean turnaround with 1, 2, 4 … cores for each job, and a part each."""
    sizes = [2**n for n in range(cores.bit_length()) if 2**n <= cores]
    found = {f"{size} each": _with(works, size, cores) for size in sizes}
    found["split"] = split(works, cores)
    return {name: (makespan(each), mean_turnaround(each)) for name, each in found.items()}


def _with(works: Sequence[Work], size: int, cores: int) -> dict[str, JobRecord]:
    return run(
        _IN_ORDER, [replace(work, shape=_exactly(size, work.shape)) for work in works], cores
    )


def _exactly(size: int, shape: Shape) -> Shape:
    cores = max(shape.min, min(size, shape.max))
    return Shape(cores, cores, cores)
