# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A workload to simulate, and what was made up because its source does not say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tf_malleable.simulate.curves import LINEAR, Speedup
from tf_malleable.simulate.task import Task


@dataclass(frozen=True)
class Assumed:
    """What is assumed of jobs whose source does not say it.

    Attributes:
        curve: How much faster a job works with more cores.
        curve_text: The same as the user wrote it.
        malleable: A job of n cores can use 1 … n; otherwise it needs exactly n.
        starting: Seconds before its first step, on one core.
        steps: Steps it reports; None for none.
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
        name: For tables and figures.
        tasks: In order of arrival.
        left_out: How many jobs of the source are not simulated, by the reason.
        assumed: What was made up, one sentence each, without a full stop.
    """

    name: str
    tasks: tuple[Task, ...]
    left_out: Mapping[str, int] = field(default_factory=dict)
    assumed: tuple[str, ...] = ()
