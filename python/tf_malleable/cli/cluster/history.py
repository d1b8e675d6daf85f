# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Commands tfm cluster history and gantt: ended and running MalleableJobs over time.

Deleted jobs are not remembered.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

import click

from tf_malleable.cli.cluster.connection import Cluster, namespace_options
from tf_malleable.cli.cluster.job_tables import steps
from tf_malleable.cli.cluster.job_view import JobView
from tf_malleable.cli.options import json_option, print_json
from tf_malleable.cli.pictures import picture, require_matplotlib, write
from tf_malleable.cli.tables import console, table
from tf_malleable.model import OperationError
from tf_malleable.model.units import duration, short

_COLUMNS = (
    *("name", "phase", "created", ">waiting", ">running", ">total"),
    *(">rescales", ">longest pause", ">failures", "steps"),
)
_everywhere = click.option(
    "--all-namespaces", "-A", "everywhere", is_flag=True, help="Show all namespaces."
)


@click.command()
@_everywhere
@json_option
@namespace_options
def history(cluster: Cluster, everywhere: bool, as_json: bool) -> None:
    """List MalleableJobs by arrival, with their waiting and run times.

    Deleted jobs and all but the latest rescales are unknown.
    """
    now = time.time()
    jobs = _jobs(cluster, everywhere)
    if as_json:
        print_json([{**job.as_json(), **_seconds(job, now)} for job in jobs])
        return
    if not jobs:
        click.echo("there are no MalleableJobs")
        return
    columns = (*(("namespace",) if everywhere else ()), *_COLUMNS)
    console().print(
        table(
            columns,
            [(*((job.namespace,) if everywhere else ()), *_row(job, now)) for job in jobs],
        )
    )


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path), callback=picture)
@_everywhere
@namespace_options
def gantt(cluster: Cluster, file: Path, everywhere: bool) -> None:
    """Draw to a .svg or .png FILE the size of each MalleableJob over time.

    The height of a bar is the number of CPUs if the operator has recorded it for each change,
    and else the number of workers.
    """
    require_matplotlib()
    from tf_malleable.cli.cluster import timeline
    from tf_malleable.figures.gantt import draw_rows

    now = time.time()
    jobs = _jobs(cluster, everywhere)
    if not jobs:
        raise OperationError("there are no MalleableJobs to draw")
    unit = timeline.unit_of(jobs)
    nodes = cluster.nodes() if unit == "CPU" else []
    figure = draw_rows(
        timeline.rows(jobs, unit, now),
        _metrics(jobs, now),
        most=timeline.capacity(nodes),
        unit=unit,
    )
    write(figure, file)


def _jobs(cluster: Cluster, everywhere: bool) -> list[JobView]:
    found = [JobView.read(each) for each in cluster.jobs(everywhere=everywhere)]
    return sorted(found, key=lambda job: (job.created, job.namespace, job.name))


def _seconds(job: JobView, now: float) -> dict[str, float | None]:
    """Return a job's waiting, running and total time, in seconds."""
    end = now if job.ended is None else job.ended
    started = job.started
    return {
        "waiting_seconds": max(0.0, (end if started is None else started) - job.created),
        "running_seconds": None if started is None else max(0.0, end - started),
        "total_seconds": max(0.0, end - job.created),
    }


def _row(job: JobView, now: float) -> tuple[str, ...]:
    times = _seconds(job, now)
    pauses = [each.pause_seconds for each in job.rescales if each.pause_seconds is not None]
    return (
        job.name,
        job.phase,
        datetime.fromtimestamp(job.created).strftime("%b %d %H:%M:%S"),
        *(duration(times[f"{name}_seconds"]) for name in ("waiting", "running", "total")),
        str(len(job.rescales)),
        short(max(pauses, default=None)),
        str(job.status.get("failures", 0)),
        steps(job),
    )


def _metrics(jobs: Sequence[JobView], now: float) -> str:
    ends = [now if job.ended is None else job.ended for job in jobs]
    totals = [_seconds(job, now)["total_seconds"] or 0.0 for job in jobs]
    makespan = max(ends) - min(job.created for job in jobs)
    mean = sum(totals) / len(totals)
    return f"makespan {duration(makespan)}  ·  mean turnaround {duration(mean)}"
