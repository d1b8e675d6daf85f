# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Choice of the host on which a job starts. Pure; jobs do not move later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_malleable.model import Shape


@dataclass(frozen=True)
class Load:
    """Load of a host.

    Attributes:
        cores: Number of cores of the host.
        wanted: Sum of the preferred cores of its jobs.
        least: Sum of the min of its jobs.
    """

    cores: int
    wanted: int = 0
    least: int = 0


def choose(shape: Shape, loads: Sequence[Load]) -> int | None:
    """Return the index of the host for a job; None if the job fits on none even alone.

    It is the host with the lowest ratio of wanted cores to cores once the job is there; among
    equal hosts, the first.
    """
    fitting = [index for index, load in enumerate(loads) if shape.min <= load.cores]
    if not fitting:
        return None

    def crowded(index: int) -> tuple[float, float, int]:
        load = loads[index]
        most = min(shape.preferred, load.cores)
        return (
            (load.wanted + most) / load.cores,
            (load.least + shape.min) / load.cores,
            index,
        )

    return min(fitting, key=crowded)
