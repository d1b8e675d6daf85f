# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The identity of a process."""

from __future__ import annotations

from tf_malleable.quick_dataclass import dataclass


@dataclass(frozen=True)
class ProcessId:
    """The identity of one process. The pid alone is not enough, as pids are reused.

    Attributes:
        pid: Pid of the process.
        start: Start time, in clock ticks since boot.
        boot: The kernel's id of that boot.
    """

    pid: int
    start: int
    boot: str
