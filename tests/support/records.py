# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Live jobs and ended ones to keep, made from a number."""

from __future__ import annotations

from dataclasses import replace

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.history import JobRecord, Span
from tf_malleable.model import Grant, ProcessId, Shape
from tf_malleable.scheduling.records import metrics
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Knowledge
from tf_malleable.scheduling.records.metrics import Measurements
from tf_malleable.scheduling.records.phases import Course
from tf_malleable.scheduling.records.speeds import Speedometer

WAITING = Record(
    id="1",
    name="train.py",
    command=("python", "train.py"),
    process=ProcessId(4321, 99, "boot"),
    uid=0,
    shape=Shape(1, 2, 4),
    priority=3,
    weight=1.5,
    submitted=1000.0,
    entered=1000.0,
    since=1000.0,
)
# 2 steps a second with 2 cores.
SPEED = Speedometer().change(2, 0.0).report(80, 100, 50.0).report(100, 100, 60.0)
ELASTIC = Elastic(workers=2, generation=5, changed=1500.0, reason="join", pause_seconds=0.048)
MEASURED = Measurements(12.5, SPEED, course=Course(1.5, 1.0, 0.5, 3.0, 2), elastic=ELASTIC)


def live(number: int, **changes) -> Record:
    """Return a job that runs on CPUs 0 and 2 and has lent CPU 3."""
    record = replace(
        WAITING,
        id=str(number),
        state="running",
        submitted=1000.0 + number,
        started=1001.0 + number,
        entered=1001.0 + number,
        since=1002.0 + number,
        grant=Grant(frozenset({0, 2}), frozenset({3})),
        serial=7,
        waiting_seconds=1.0,
        run_seconds=1.0,
        core_seconds=2.0,
    )
    return replace(record, **changes)


def ended(number: int, at: float | None = None) -> JobRecord:
    end = 2000.0 + number if at is None else at
    return metrics.ended(live(number), end, "finished", 0, MEASURED, user="somebody")


def span(number: int, begin: float, end: float) -> Span:
    return Span(str(number), begin, end, "running", [0, 2])


def run_seconds(knowledge: Knowledge, command: str) -> float | None:
    """Return the run time that is known of a command, by its key; None if it never finished."""
    known = knowledge.run_times.get(command)
    return None if known is None else known.seconds
