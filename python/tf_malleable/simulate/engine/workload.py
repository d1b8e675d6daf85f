# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A workload to simulate, and the assumptions that complete its source."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tf_malleable.simulate.engine.curves import LINEAR, Speedup
from tf_malleable.simulate.engine.task import Task


@dataclass(frozen=True)
class Assumed:
    """Assumptions about jobs whose source is incomplete.

    Attributes:
        curve: Speed-up curve.
        curve_text: The curve as the user wrote it.
        malleable: True if a job of n cores can use 1 … n; otherwise it needs exactly n.
        starting: Seconds before the first step, on one core.
        steps: Number of steps that a job reports; None for none.
    """

    curve: Speedup = LINEAR
    curve_text: str = "linear"
    malleable: bool = True
    starting: float = 0.0
    steps: float | None = 100.0


@dataclass(frozen=True)
class Workload:
    """Jobs to simulate.

    Attributes:
        name: Name for tables and figures.
        tasks: Jobs in order of arrival.
        left_out: Number of jobs of the source that are not simulated, by the reason.
        assumed: Assumptions, one sentence each, without a full stop.
    """

    name: str
    tasks: tuple[Task, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
