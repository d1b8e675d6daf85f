# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Histories, written down as who had which CPUs from when to when."""

from __future__ import annotations

from collections.abc import Sequence

from tf_malleable.api.schema.history import History, JobRecord, Outcome, Span
from tf_malleable.scheduling.records.metrics import summary

# Unix time of the first arrival.
ZERO = 1_700_000_000.0

Life = Sequence[tuple[float, float, str, Sequence[int]]]


def job(
    number: int,
    name: str,
    life: Life,
    outcome: Outcome = "finished",
    cpu_seconds: float | None = None,
) -> tuple[JobRecord, list[Span]]:
    """Return a job's record and spans; times are seconds since the first arrival."""
    seconds = {"waiting": 0.0, "running": 0.0, "paused": 0.0}
    for begin, end, state, _ in life:
        seconds[state] += end - begin
    runs = [begin for begin, _, state, _ in life if state == "running"]
    record = JobRecord(
        id=str(number),
        name=name,
        command=["python", name],
        user="ada",
        submitted=ZERO + life[0][0],
        started=ZERO + runs[0] if runs else None,
        ended=ZERO + life[-1][1],
        outcome=outcome,
        exit_code={"finished": 0, "failed": 137}.get(outcome),
        waiting_seconds=seconds["waiting"],
        service_seconds=seconds["running"],
        paused_seconds=seconds["paused"],
        total_seconds=sum(seconds.values()),
        core_seconds=sum((end - begin) * len(cpus) for begin, end, _, cpus in life),
        cpu_seconds=cpu_seconds,
        resizes=0,
        steps=None,
    )
    spans = [
        Span(record.id, ZERO + begin, ZERO + end, state, list(cpus))
        for begin, end, state, cpus in life
    ]
    return record, spans


def history(*jobs: tuple[JobRecord, list[Span]], cpus: int = 2) -> History:
    """Return the history of these jobs."""
    records = [record for record, _ in jobs]
    return History(records, [span for _, spans in jobs for span in spans], summary(records, cpus))


def shared() -> History:
    """Return three jobs on two CPUs: one is resized and paused, one waits and fails."""
    return history(
        job(
            1,
            "large.py",
            [
                (0, 4, "running", [0, 1]),
                (4, 6, "running", [0]),
                (6, 8, "paused", []),
                (8, 9, "running", [0]),
                (9, 10, "running", [1]),
                (10, 12, "running", [0, 1]),
            ],
            cpu_seconds=12.0,
        ),
        job(2, "small.py", [(4, 6, "running", [1]), (6, 8, "running", [0])]),
        job(3, "small.py", [(5, 6, "waiting", []), (6, 9, "running", [1])], "failed"),
    )
