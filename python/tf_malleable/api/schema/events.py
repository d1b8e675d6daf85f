# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Message of the event stream: live jobs and their changes."""

from __future__ import annotations

import msgspec

from tf_malleable.api.schema.messages import ControllerInfo, JobStatus
from tf_malleable.api.schema.power import PowerStatus


class Events(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the event stream: the first has the full state, the others only changes.

    Attributes:
        serial: Serial number of the line; the first number is arbitrary.
        at: Unix time at which the line was made.
        whole: True if the line has all jobs and replaces the earlier state.
        info: State of the controller; null if unchanged.
        power: Power draw of the host; null if unchanged.
        jobs: Live jobs that are new or have changed. A longer duration alone is not a change.
        gone: Ids of the jobs that have ended.
        ended: Number of jobs that have ended since the controller was started, including those
            that came and went between two lines.
    """

    serial: int
    at: float
    whole: bool
    info: ControllerInfo | None
    power: PowerStatus | None
    jobs: list[JobStatus]
    gone: list[str]
    ended: int
