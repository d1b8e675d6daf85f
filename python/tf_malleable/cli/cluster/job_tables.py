# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tables of MalleableJobs for the terminal. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tf_malleable.cli.cluster.job_view import JobView, Said, seconds
from tf_malleable.cli.tables import table
from tf_malleable.model.units import duration, number, printable, short


def cpus(value: float | None) -> str:
    """Return a number of CPUs as text; a dash if it is unknown."""
    return "-" if value is None else f"{value:g}"


def count(value: int | None) -> str:
    """Return a number as text; a dash if it is unknown."""
    return "-" if value is None else str(value)


def steps(job: JobView) -> str:
    """Return a job's steps done and in total as text; a dash if they are unknown."""
    done, total = job.steps
    if done is None:
        return "-"
    return f"{done:.0f}" if not total else f"{done:.0f} of {total:.0f}"


def overview(
    jobs: Sequence[JobView],
    now: float,
    *,
    namespaces: bool,
    mark: Callable[[JobView], RenderableType] | None = None,
) -> Table:
    """Return a table with a row for each job.

    Args:
        jobs: The jobs.
        now: Current time, in seconds since the epoch.
        namespaces: True to show each job's namespace.
        mark: Returns the first cell of a job's row; None for no such column.
    """
    columns = (
        *(() if mark is None else ("",)),
        *(("namespace",) if namespaces else ()),
        *("name", "phase", ">workers", ">desired", ">granted", ">actual"),
        *("steps", ">steps/s", ">age", "why"),
    )
    rows = [
        (
            *(() if mark is None else (mark(job),)),
            *((job.namespace,) if namespaces else ()),
            job.name,
            job.phase,
            count(job.count("actual")),
            cpus(job.cpus("desired")),
            cpus(job.cpus("granted")),
            cpus(job.cpus("actual")),
            steps(job),
            number(job.speed),
            duration(max(0.0, now - job.created)),
            job.why,
        )
        for job in jobs
    ]
    return table(columns, rows)


def details(job: JobView, now: float) -> Iterator[RenderableType]:
    """Yield all details of a job, part by part."""
    yield Text(printable(_headline(job)))
    yield table(
        ("", ">workers", ">CPUs"),
        [
            (which, count(job.count(which)), cpus(job.cpus(which)))
            for which in ("desired", "granted", "actual")
        ],
    )
    if job.workers:
        yield table(
            ("worker", "node", ">granted", ">actual", ">shards"),
            [(*_member(each), count(each.get("shards"))) for each in job.workers],
        )
    if job.servers:
        members = [_member(each) for each in job.servers]
        yield table(("server", "node", ">granted", ">actual"), members)
    if job.rescales:
        yield table(
            ("rescaled", "reason", "workers", "CPUs", ">pause"),
            [
                (
                    _clock(each.at),
                    each.reason or "-",
                    f"{count(each.before.get('workers'))} → {count(each.after.get('workers'))}",
                    f"{cpus(each.before.get('cpus'))} → {cpus(each.after.get('cpus'))}",
                    short(each.pause_seconds),
                )
                for each in job.rescales
            ],
        )
    conditions = job.status.get("conditions") or ()
    if conditions:
        yield table(
            ("condition", "status", "reason", ">since", "message"),
            [
                (*_condition(each), _since(each, now), each.get("message", ""))
                for each in conditions
            ],
        )


def _headline(job: JobView) -> str:
    parts = [f"{job.name} in {job.namespace}: {job.phase}"]
    if job.status.get("generation") is not None:
        parts.append(f"generation {job.status['generation']}")
    parts.append(f"{job.spec.get('shards', '-')} shards")
    if job.spec.get("priority"):
        parts.append(f"priority {job.spec['priority']}")
    if job.steps[0] is not None:
        parts.append(f"step {steps(job)}")
    if job.speed is not None:
        parts.append(f"{number(job.speed)} steps/s")
    return ", ".join(parts)


def _member(said: Said) -> tuple[str, str, str, str]:
    return (
        str(said["pod"]),
        str(said.get("node") or "-"),
        cpus(said.get("granted")),
        cpus(said.get("actual")),
    )


def _condition(said: Said) -> tuple[str, str, str]:
    return str(said["type"]), str(said["status"]), str(said.get("reason", ""))


def _since(said: Said, now: float) -> str:
    at = seconds(said.get("lastTransitionTime"))
    return "-" if at is None else duration(max(0.0, now - at))


def _clock(at: float) -> str:
    return datetime.fromtimestamp(at).strftime("%H:%M:%S")
