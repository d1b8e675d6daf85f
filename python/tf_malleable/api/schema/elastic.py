# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Message about an elastic training: its workers, servers and generations."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Time = Annotated[float, Meta(ge=0, le=10**15)]


class Elastic(msgspec.Struct, frozen=True, kw_only=True):
    """State of an elastic training. Fields are null if unknown.

    Attributes:
        workers: Number of workers, the processes that train.
        servers: Number of servers; each owns a slice of the parameters' sums.
        generation: Number of the current generation; 0 before the first. There may be gaps.
        changed: Unix time at which the current generation began.
        reason: Reason of the current generation: start of the training; a process that joined,
            left or was lost; shards that moved to faster workers; a change of servers.
        pause_seconds: Seconds for which the training paused for the current generation.
        most_workers: Largest number of workers so far.
        longest_pause_seconds: Longest pause of all generations, in seconds.
    """

    workers: _Count
    servers: _Count = 0
    generation: _Count = 0
    changed: _Time | None = None
    reason: Literal["start", "join", "leave", "lost", "speed", "servers"] | None = None
    pause_seconds: _Time | None = None
    most_workers: _Count = 0
    longest_pause_seconds: _Time | None = None
