# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The stream of changes."""

from __future__ import annotations

import msgspec

from tf_malleable.api.messages import ControllerInfo, JobStatus
from tf_malleable.api.power import PowerStatus


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the stream of changes: the first has everything, the others what has changed.

    Attributes:
        serial: Counts the lines, from any number on.
        at: When it was made.
        whole: It has all jobs, and replaces what was known.
        info: The controller itself; null if that has not changed.
        power: What the host draws; null if that has not changed.
        jobs: The live jobs that are new or have changed. That a duration has grown is no change.
        gone: Ids of the jobs that have ended.
        ended: How many have ended since the controller was started, including those that came and
            went between two lines.
    """

    serial: int
    at: float
    whole: bool
    info: ControllerInfo | None
    power: PowerStatus | None
    jobs: list[JobStatus]
    gone: list[str]
    ended: int
