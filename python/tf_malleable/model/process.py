# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""One process of a host."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProcessId:
    """One process and no other: numbers are used again, start times are not.

    Attributes:
        pid: Its number.
        start: When it was started, in clock ticks since the host's boot.
        boot: The boot's id, as the kernel gives it.
    """

    pid: int
    start: int
    boot: str
