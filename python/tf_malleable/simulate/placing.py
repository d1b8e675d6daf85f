# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Chooses the host on which a job starts. Pure; jobs do not move later."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tf_malleable.model import Shape


@dataclass(frozen=True)
class Load:
    """What a host has to do.

    Attributes:
        cores: Cores of the host.
        wanted: Sum of the preferred cores of its jobs.
        least: Sum of their min.
    """

    cores: int
    wanted: int = 0
    least: int = 0


def choose(shape: Shape, loads: Sequence[Load]) -> int | None:
    """Return the index of the host for a job, None if it fits on none even alone.

    It is the host whose cores are least wanted once the job is there, in proportion to how
    many it has; of equal ones, the first.
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
