# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Changes of a job's record; every second of a job counts towards exactly one state. Pure."""

from __future__ import annotations

from dataclasses import replace

from tf_malleable.api.history import Span
from tf_malleable.model import Grant, JobState
from tf_malleable.scheduling.record import Record


def up_to(record: Record, now: float) -> Record:
    """Return the record with its sums updated to `now`."""
    seconds = max(0.0, now - record.since)
    record = replace(record, since=max(now, record.since))
    if record.state == "waiting":
        return replace(record, waiting_seconds=record.waiting_seconds + seconds)
    if record.state == "paused":
        return replace(record, paused_seconds=record.paused_seconds + seconds)
    return replace(
        record,
        run_seconds=record.run_seconds + seconds,
        core_seconds=record.core_seconds + seconds * len(record.grant.cpus),
    )


def run_seconds(record: Record, now: float) -> float:
    """Return the seconds the job has run by `now`; cheaper than up_to(), for decisions."""
    running = record.state == "running"
    return record.run_seconds + (max(0.0, now - record.since) if running else 0.0)


def granted(record: Record, grant: Grant, now: float) -> Record:
    """Return the record with another grant, possibly empty, from `now` on."""
    record = up_to(record, now)
    if not grant:
        state: JobState = "waiting" if record.started is None else "paused"
        entered = record.entered if record.state == state else now
        return replace(record, state=state, entered=entered, grant=grant, serial=record.serial + 1)
    ran = record.state == "running"
    # The first grant of a job that was already running when it joined is not a resize.
    resized = ran and bool(record.grant) and len(grant.cpus) != len(record.grant.cpus)
    return replace(
        record,
        state="running",
        entered=record.entered if ran else now,
        started=now if record.started is None else record.started,
        grant=grant,
        serial=record.serial + 1,
        resizes=record.resizes + resized,
    )


def joined(record: Record, now: float) -> Record:
    """Return the record of a job that is already running, on CPUs that nobody granted."""
    return replace(up_to(record, now), state="running", started=now, entered=now)


def span(record: Record, now: float) -> Span:
    """Return the span since the state or grant last changed."""
    return Span(record.id, record.since, now, record.state, sorted(record.grant.cpus))
