# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command tfm workload: runs the jobs of a file at given times, and measures them."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import click

from tf_malleable.api.schema.history import History
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.jobs.job_texts import summed_up
from tf_malleable.cli.options import json_option, local_socket_option, print_json
from tf_malleable.cli.tables import console, table
from tf_malleable.cli.workload.progress import WorkloadProgress
from tf_malleable.model import OperationError
from tf_malleable.model.units import duration
from tf_malleable.workload.interrupts import end_on_signals
from tf_malleable.workload.plan import PlannedJob, read_workload
from tf_malleable.workload.runner import run_workload


@click.command()
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="Directory for the jobs' output.  [default: FILE's name with the suffix .out, in the"
    " current directory]",
)
@click.option("--alone", is_flag=True, help="Start the jobs without a controller, to compare.")
@click.option("--dry-run", is_flag=True, help="Check FILE and list its jobs, but run nothing.")
@json_option
@local_socket_option
def workload(
    client: Client, file: Path, out: Path | None, alone: bool, dry_run: bool, as_json: bool
) -> None:
    """Run the jobs of FILE at given times and print metrics.

    Each line of FILE is a job: its arrival time in seconds, then the arguments of tfm run,
    without --threads, --follow-cgroup, --socket and --id-file.

    \b
        0    --max 2 -- python train.py --epochs 3
        2.5  --min 2 --priority 10 -- python big.py

    Exits with 1 if a job failed. Ctrl-C ends all jobs.
    """
    jobs = read_workload(file)
    if dry_run:
        _print_plan(jobs, as_json)
        return
    folder = out if out is not None else Path(f"{file.stem}.out")
    end_on_signals(lambda number: SystemExit(128 + number))
    controller = None if alone else client
    try:
        with WorkloadProgress(jobs, controller) as progress:
            history = run_workload(jobs, out=folder, controller=controller, watch=progress)
    except OSError as error:
        raise OperationError(f"cannot use {error.filename or folder}: {error.strerror}") from None
    if as_json:
        print_json(history)
    else:
        _print(history)
    bad = sum(job.outcome != "finished" for job in history.jobs)
    if bad:
        raise OperationError(f"{bad} of {len(jobs)} jobs failed; their output is in {folder}")


def _print_plan(jobs: Sequence[PlannedJob], as_json: bool) -> None:
    if as_json:
        print_json([_flat(job) for job in jobs])
        return
    columns = (">at", "name", ">min", ">preferred", ">max", ">priority", ">weight", "command")
    rows = [
        (
            f"{job.at:g} s",
            job.request.name,
            str(job.request.min),
            str(job.request.preferred or "max"),
            str(job.request.max or "all"),
            str(job.request.priority),
            f"{job.request.weight:g}",
            shlex.join(job.request.command),
        )
        for job in jobs
    ]
    console().print(table(columns, rows))


def _flat(job: PlannedJob) -> dict[str, object]:
    return {"at": job.at, **asdict(job.request), "queue": job.queue}


def _print(history: History) -> None:
    columns = (
        *(">id", "name", "outcome", ">exit", ">arrived", ">waited", ">ran", ">paused"),
        *(">total", ">CPU time", ">resizes"),
    )
    first = min(job.submitted for job in history.jobs)
    rows = [
        (
            job.id,
            job.name,
            job.outcome,
            "-" if job.exit_code is None else str(job.exit_code),
            duration(job.submitted - first),
            duration(job.waiting_seconds),
            duration(job.service_seconds),
            duration(job.paused_seconds),
            duration(job.total_seconds),
            duration(job.cpu_seconds),
            str(job.resizes),
        )
        for job in history.jobs
    ]
    output = console()
    output.print(table(columns, rows))
    output.print(f"\n{summed_up(history.summary)}", soft_wrap=True)
