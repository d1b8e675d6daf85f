# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm history: lists and draws the jobs that have ended.

Without a controller, it reads the state file.
"""

from __future__ import annotations

import csv
import os
import shlex
import sys
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import click
import msgspec
from click.core import ParameterSource

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.history import MOST_HISTORY, History, JobRecord
from tf_malleable.api.schema.tier_reads import TierReading
from tf_malleable.api.transport.address import NoAnswerError, standard_socket
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.jobs.job_arguments import group_option
from tf_malleable.cli.jobs.job_texts import per_step, read_and_saved, summed_up, title
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.cli.pictures import gantt_option, require_matplotlib, write
from tf_malleable.cli.tables import JobTable, console
from tf_malleable.controller.state.store import StoreError, default_state, read_history
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import OperationError
from tf_malleable.model.units import duration, energy, number, short
from tf_malleable.scheduling.records.metrics import summary

# Number of ended jobs among which those of a group are looked for.
_SEARCHED = 10_000
_COLUMNS = (
    ">id",
    "name",
    "user",
    "outcome",
    "arrived",
    ">waiting",
    ">service",
    ">paused",
    ">total",
    ">cores·s",
    ">resizes",
    ">steps",
)
_ENERGY = (">energy", ">per step", "source")
_READING = (">from source", ">saved")
_ELASTIC = (">most workers", ">generation", ">longest pause")


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(1, MOST_HISTORY),
    metavar="N",
    default=1000,
    help="Show only the N jobs that ended last.  [default: 1000]",
)
@group_option
@json_option
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV, for spreadsheets.")
@gantt_option
@click.option(
    "--state",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Read this state file; with --socket, only if no controller answers there.",
)
@socket_option
def history(
    client: Client,
    limit: int,
    group: str | None,
    as_json: bool,
    as_csv: bool,
    gantt: Path | None,
    state: Path | None,
) -> None:
    """List the jobs that have ended, with their metrics.

    Waiting: time before the first core. Service: time with cores. Paused: time without
    cores after the first. Cores·s: cores granted times seconds. Slowdown: total divided by
    service. Energy: what was drawn for the job where the power was metered. From source and
    saved: bytes that it read from the source of a data tier, and from copies instead.

    Outcome is time-limit, out-of-memory, reboot or the signal, such as signal 9, if that ended the
    job.

    If no controller answers at the standard path, its state file is read.
    """
    if as_json and as_csv:
        raise click.UsageError("--json and --csv exclude each other: give only one of them")
    if gantt is not None:
        require_matplotlib()
    if group is not None and client.connect is not None:
        raise OperationError(
            f"which jobs at {client.socket} are yours is not known here: leave --group out"
        )
    searched = limit if group is None else max(limit, _SEARCHED)
    found, cpus = _find(client, searched, as_json or gantt is not None, state)
    if group is not None:
        found = _of_group(found, group, limit, cpus)
    if gantt is not None:
        _draw(found, cpus, gantt)
    if as_json:
        print_json(found)
    elif as_csv:
        _print_csv(found.jobs)
    else:
        _print_table(found)


def _find(client: Client, limit: int, spans: bool, state: Path | None) -> tuple[History, int]:
    """Return the history and the number of CPUs, from the controller or else the state file."""
    source = click.get_current_context().get_parameter_source("client")
    if state is not None and source is not ParameterSource.COMMANDLINE:
        try:
            return read_history(state, limit)
        except StoreError as error:
            raise OperationError(str(error)) from None
    try:
        query = f"/v1/history?limit={limit}&spans={str(spans).lower()}"
        return client.get(query, History), len(client.info().cpus)
    except NoAnswerError as error:
        # A controller at another socket need not use the default state file.
        if state is None and client.socket != standard_socket():
            advice = "read its state file with: tfm history --state FILE"
            raise OperationError(f"{error.problem}; {advice}") from None
        problem = error.problem
    path = state or default_state()
    try:
        found = read_history(path, limit)
    except StoreError as error:
        raise OperationError(f"{problem}, and {error}") from None
    click.echo(f"tfm: {problem}, reading {path}", err=True)
    return found


def _of_group(found: History, group: str, limit: int, cpus: int) -> History:
    """Return the part of a history that is about the caller's jobs of a group."""
    user = user_name(os.getuid())
    jobs = [each for each in found.jobs if (each.group, each.user) == (group, user)]
    newest = {each.id for each in sorted(jobs, key=lambda job: job.ended)[-limit:]}
    jobs = [each for each in jobs if each.id in newest]
    return History(jobs, [each for each in found.spans if each.job in newest], summary(jobs, cpus))


def _draw(found: History, cpus: int, path: Path) -> None:
    from tf_malleable.figures import gantt

    if not found.jobs and not found.spans:
        raise OperationError("there are no jobs to draw")
    write(gantt.draw(found, cpus=cpus or None), path)


def _print_csv(jobs: list[JobRecord]) -> None:
    """Print RFC 4180 CSV: a header, CR LF line ends, and empty fields for unknown values."""
    writer = csv.writer(sys.stdout, lineterminator="\r\n")
    names = [field.name for field in msgspec.structs.fields(JobRecord)]
    writer.writerow(names)
    for job in jobs:
        speeds = (f"{each.cores}={each.steps_per_second}" for each in job.speeds or ())
        lists = {
            "command": shlex.join(job.command),
            "gpus": " ".join(map(str, job.gpus)),
            "speeds": " ".join(speeds),
            "elastic": " ".join(_pairs(job.elastic)),
            "reading": " ".join(_pairs(job.reading)),
            "killed_commands": ", ".join(job.killed_commands),
        }
        values = {**msgspec.structs.asdict(job), **lists}
        writer.writerow([values[name] for name in names])


def _pairs(of: Elastic | TierReading | None) -> Iterator[str]:
    known = {} if of is None else msgspec.structs.asdict(of)
    return (f"{name}={value}" for name, value in known.items() if value is not None)


def _print_table(found: History) -> None:
    if not found.jobs:
        click.echo("no job has ended yet")
        return
    output = console()
    is_elastic = any(job.elastic is not None for job in found.jobs)
    is_metered = any(job.energy_joules is not None for job in found.jobs)
    has_tier = any(job.reading is not None for job in found.jobs)
    columns = _COLUMNS + (_ENERGY if is_metered else ()) + (_READING if has_tier else ())
    columns += _ELASTIC if is_elastic else ()
    rows = [
        _row(job)
        + (_energy(job) if is_metered else ())
        + (read_and_saved(job.reading) if has_tier else ())
        + (_elastic(job.elastic) if is_elastic else ())
        for job in found.jobs
    ]
    output.print(JobTable(columns, rows, (">id", "name", "outcome")))
    for job in found.jobs:
        if job.killed:
            output.print(
                f"{title(job)}: {job.killed} of its processes outlived the program and were killed;"
                f" tfm show {job.id} names them",
                soft_wrap=True,
            )
    output.print(f"\n{summed_up(found.summary)}", soft_wrap=True)


def _row(job: JobRecord) -> tuple[str, ...]:
    code = f" {job.exit_code}" if job.exit_code else ""
    outcome = job.cause or f"{job.outcome}{code}"
    return (
        job.id,
        job.name,
        job.user,
        outcome,
        datetime.fromtimestamp(job.submitted).strftime("%b %d %H:%M:%S"),
        duration(job.waiting_seconds),
        duration(job.service_seconds),
        duration(job.paused_seconds),
        duration(job.total_seconds),
        number(job.core_seconds),
        str(job.resizes),
        number(job.steps, 0),
    )


def _energy(job: JobRecord) -> tuple[str, ...]:
    spent, steps = job.energy_joules, job.steps
    return energy(spent), energy(per_step(spent, steps)), job.energy_source or "-"


def _elastic(elastic: Elastic | None) -> tuple[str, ...]:
    if elastic is None:
        return ("-",) * len(_ELASTIC)
    pause = short(elastic.longest_pause_seconds)
    return str(elastic.most_workers), str(elastic.generation), pause
