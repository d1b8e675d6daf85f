# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Accounting of a job's time: every second counts towards exactly one state. Pure."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tf_malleable.api.schema.history import Span
from tf_malleable.model import Grant, JobState
from tf_malleable.model.job import UNREST_HALF_SECONDS
from tf_malleable.scheduling.records.job_record import Record


def up_to(record: Record, now: float) -> Record:
    """Return the record with its sums updated to `now`."""
    return replace(record, **_sums(record, now))


def _sums(record: Record, now: float) -> dict[str, Any]:
    """Return the fields that grow with time, as of `now`."""
    seconds = max(0.0, now - record.since)
    since = max(now, record.since)
    if record.state == "waiting":
        return {"since": since, "waiting_seconds": record.waiting_seconds + seconds}
    if record.state == "paused":
        return {"since": since, "paused_seconds": record.paused_seconds + seconds}
    return {
        "since": since,
        "run_seconds": record.run_seconds + seconds,
        "core_seconds": record.core_seconds + seconds * len(record.grant.cpus),
    }


def run_seconds(record: Record, now: float) -> float:
    """Return the seconds the job has run by `now`; cheaper than up_to(), for decisions."""
    running = record.state == "running"
    return record.run_seconds + (max(0.0, now - record.since) if running else 0.0)


def granted(record: Record, grant: Grant, now: float) -> Record:
    """Return the record with another grant, possibly empty, from `now` on."""
    ran = record.state == "running"
    state: JobState = "running" if grant else "waiting" if record.started is None else "paused"
    # The first grant of a job that was already running when it joined is not a resize.
    was, is_now = len(record.grant.cpus), len(grant.cpus)
    resized = ran and bool(grant) and bool(record.grant) and was != is_now
    return replace(
        record,
        **_sums(record, now),
        state=state,
        entered=record.entered if record.state == state else now,
        started=now if grant and record.started is None else record.started,
        grant=grant,
        serial=record.serial + 1,
        resizes=record.resizes + resized,
        **(_unrest(record, now) if resized and record.by_hand is None else {}),
    )


def _unrest(record: Record, now: float) -> dict[str, Any]:
    """Return the fields that tell how often a job was resized lately, with one more resize."""
    before = now if record.resized is None else record.resized
    rest = record.unrest * 0.5 ** (max(0.0, now - before) / UNREST_HALF_SECONDS)
    return {"resized": now, "unrest": rest + 1.0}


def joined(record: Record, now: float) -> Record:
    """Return the record of a job that is already running, on CPUs that were not granted."""
    return replace(up_to(record, now), state="running", started=now, entered=now)


def span(record: Record, now: float) -> Span:
    """Return the span since the state or grant last changed."""
    return Span(record.id, record.since, now, record.state, sorted(record.grant.cpus))
