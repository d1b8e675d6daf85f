# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows and steps over time of a history, independent of drawing."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from tf_malleable.api.schema.history import History, JobRecord, Outcome, Span
from tf_malleable.model import JobState

# Stretches with a smaller gap are considered adjacent.
_TOUCHING_SECONDS = 1e-3
# Digits to round to, as sums of mean numbers of cores do not cancel exactly.
_DIGITS = 9
_NOTHING = 1e-9


@dataclass(frozen=True)
class Stretch:
    """A period in which a job's state and number of cores did not change.

    Attributes:
        begin: Seconds since the first arrival of the history.
        end: Seconds since the first arrival of the history.
        state: The job's state.
        cores: Number of cores, possibly a mean.
    """

    begin: float
    end: float
    state: JobState
    cores: float


@dataclass(frozen=True)
class Row:
    """The row of one job.

    Attributes:
        label: Name of the job, with its id if other jobs have the same name.
        stretches: Stretches in chronological order.
        outcome: Outcome of the job; None if it is live.
    """

    label: str
    stretches: tuple[Stretch, ...]
    outcome: Outcome | None


@dataclass(frozen=True)
class Band:
    """A rectangle in the strip that stacks the cores of all rows."""

    row: int
    begin: float
    end: float
    bottom: float
    top: float


def rows(history: History, zero: float | None = None) -> list[Row]:
    """Return one row per job, ended or live, in order of arrival.

    A job without spans is derived from its record: waiting, then running with its mean
    number of cores.

    Args:
        history: The history; its times are on any one clock.
        zero: Time of the first arrival, on the same clock; by default that of the history.
    """
    spans: defaultdict[str, list[Span]] = defaultdict(list)
    for span in sorted(history.spans, key=lambda span: span.begin):
        spans[span.job].append(span)
    records = {job.id: job for job in history.jobs}
    for job in history.jobs:
        spans.setdefault(job.id, [])
    arrival = {
        name: records[name].submitted if name in records else found[0].begin
        for name, found in spans.items()
    }
    zero = min(arrival.values(), default=0.0) if zero is None else zero
    names = Counter(job.name for job in history.jobs)
    result = []
    for name in sorted(spans, key=lambda name: arrival[name]):
        record = records.get(name)
        stretches = [
            Stretch(span.begin, span.end, span.state, len(span.cpus)) for span in spans[name]
        ]
        if not stretches and record is not None:
            stretches = _by_record(record)
        shifted = [replace(s, begin=s.begin - zero, end=s.end - zero) for s in stretches]
        if record is None:
            result.append(Row(f"job {name}", _merged(shifted), None))
        else:
            label = f"{record.name} ({name})" if names[record.name] > 1 else record.name
            result.append(Row(label, _merged(shifted), record.outcome))
    return result


def load(rows: Sequence[Row]) -> list[tuple[float, float]]:
    """Return the total number of cores of all rows, as (time, cores from then on)."""
    total, steps = 0.0, []
    for time, changes in _changes(rows):
        total += sum(change for _, change in changes)
        steps.append((time, round(total, _DIGITS)))
    return steps


def bands(rows: Sequence[Row]) -> list[Band]:
    """Return the stacked cores of the rows, the first row at the bottom."""
    cores: defaultdict[int, float] = defaultdict(float)
    now: dict[int, Band] = {}
    result = []
    for time, changes in _changes(rows):
        for index, change in changes:
            cores[index] += change
        before, now, bottom = now, {}, 0.0
        for index in sorted(index for index, height in cores.items() if height > _NOTHING):
            top = bottom + cores[index]
            old = before.get(index)
            stays = old is not None and (old.bottom, old.top) == (bottom, top)
            now[index] = Band(index, old.begin if old and stays else time, time, bottom, top)
            bottom = top
        for index, band in before.items():
            if index not in now or now[index].begin == time:
                result.append(replace(band, end=time))
    return result


def _changes(rows: Sequence[Row]) -> list[tuple[float, list[tuple[int, float]]]]:
    """Return, by time, the (row index, change in cores) of each row that changes."""
    changes: defaultdict[float, list[tuple[int, float]]] = defaultdict(list)
    for index, row in enumerate(rows):
        for stretch in row.stretches:
            if stretch.state == "running":
                changes[stretch.begin].append((index, stretch.cores))
                changes[stretch.end].append((index, -stretch.cores))
    return sorted(changes.items())


def _by_record(job: JobRecord) -> list[Stretch]:
    if job.started is None:
        return [Stretch(job.submitted, job.ended, "waiting", 0)]
    # The times of pauses are unknown, too: the mean includes them, so that the core-seconds are
    # right.
    seconds = job.ended - job.started
    cores = job.core_seconds / seconds if seconds > 0 else 0.0
    return [
        Stretch(job.submitted, job.started, "waiting", 0),
        Stretch(job.started, job.ended, "running", cores),
    ]


def _merged(stretches: Iterable[Stretch]) -> tuple[Stretch, ...]:
    """Return stretches, joining those between which only the CPU ids changed."""
    result: list[Stretch] = []
    for stretch in stretches:
        last = result[-1] if result else None
        if (
            last is not None
            and (last.state, last.cores) == (stretch.state, stretch.cores)
            and stretch.begin - last.end <= _TOUCHING_SECONDS
        ):
            result[-1] = replace(last, end=stretch.end)
        elif stretch.end > stretch.begin:
            result.append(stretch)
    return tuple(result)
