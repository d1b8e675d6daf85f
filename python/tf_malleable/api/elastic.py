# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is known of a job that is an elastic training."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Time = Annotated[float, Meta(ge=0, le=10**15)]


class Elastic(msgspec.Struct, frozen=True, kw_only=True):
    """The generations of an elastic training. Fields are null if unknown.

    Attributes:
        workers: How many processes train.
        servers: How many own slices of the parameters' sums.
        generation: Number of the present generation; 0 before the first, and there may be gaps.
        changed: When it began, in Unix time.
        reason: What it began with: the training's start, a process that joined, left or was lost,
            shards that moved to faster workers, or other servers.
        pause_seconds: How long the training paused for it.
        most_workers: The most workers so far.
        longest_pause_seconds: The longest pause of all its generations.
    """

    workers: _Count
    servers: _Count = 0
    generation: _Count = 0
    changed: _Time | None = None
    reason: Literal["start", "join", "leave", "lost", "speed", "servers"] | None = None
    pause_seconds: _Time | None = None
    most_workers: _Count = 0
    longest_pause_seconds: _Time | None = None
