# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm rerun: runs the command of an earlier job again."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click

from tf_malleable.api.schema.history import JobRecord
from tf_malleable.api.schema.job_names import LONGEST_COMMAND, MOST_ARGUMENTS, array_base
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.completion import complete_known_jobs
from tf_malleable.cli.ended_jobs import find_ended, no_such_job
from tf_malleable.cli.launch.arrays import ARRAY_INDEX
from tf_malleable.cli.launch.run_options import OPTIONS, RunOptions
from tf_malleable.cli.launch.start import start
from tf_malleable.cli.options import socket_path_option
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import OperationError


@click.command()
@click.argument("job", shell_complete=complete_known_jobs)
@socket_path_option
def rerun(socket: Path, job: str) -> None:
    """Run the command of a JOB again, as a new job with the same name and requests.

    JOB is an id, or a name; among ended jobs with the same name, the last is meant. The new job
    runs in the background if that one did, and otherwise here. It has the present folder and
    environment, as those of the other job are not known. Nor are --after, --after-ok, --retries,
    --notify, --kill-leftovers and --tier; of an ended job, nor are --time-limit and --between.
    """
    client = Client(socket)
    live = client.jobs()
    before: JobStatus | JobRecord | None
    if any(job in (each.id, each.name) for each in live):
        before = client.find(job, live)
    else:
        before = find_ended(client, job)
    if before is None:
        raise no_such_job(job)
    check_command(before)
    if before.array is not None and (base := array_base(before.name)):
        os.environ[ARRAY_INDEX] = before.name[len(base) + 1 : -1]
    start(options_of(before, socket))


def options_of(job: JobStatus | JobRecord, socket: Path) -> RunOptions:
    """Return the options of tfm run that make a job like this one.

    Args:
        job: The job, which still runs or has ended.
        socket: Path of the controller's socket.
    """
    values: dict[str, Any] = {each.variable: each.initial for each in OPTIONS}
    asked = {
        "min": job.min,
        # If it was not given, it was the maximum.
        "preferred": None if job.preferred == job.max else job.preferred,
        "max": job.max,
        "priority": job.priority,
        "weight": job.weight,
        "mem": job.mem,
        "area": job.area,
        "group": job.group,
        "slo": job.slo,
        "expected": job.expected if isinstance(job, JobRecord) else None,
        "between": job.between if isinstance(job, JobStatus) else None,
        "days": job.days if isinstance(job, JobStatus) else None,
        "time_limit": job.time_limit if isinstance(job, JobStatus) else None,
    }
    values |= {name: value for name, value in asked.items() if value is not None}
    return RunOptions(
        **{
            **values,
            "name": job.name,
            "gpus": len(job.gpus) if isinstance(job, JobRecord) else job.gpus,
            "detach": job.output is not None,
            "require_controller": True,
        },
        socket=os.path.abspath(socket),
        command=tuple(job.command),
        given=frozenset(),
    )


def check_command(job: JobStatus | JobRecord) -> None:
    """Raise OperationError if a job cannot be started again with the command that is known."""
    if isinstance(job, JobStatus) and job.container is not None:
        raise OperationError(f"job {job.id} is a container: start it again with its engine")
    if not job.command:
        raise OperationError(f"no command is known of job {job.id}: only that of your own jobs")
    # Root sees the commands of all, and must not run what somebody has named like a job of root's.
    if job.user != user_name(os.getuid()):
        raise OperationError(
            f"job {job.id} is a job of {job.user}: only your own jobs can be run again"
        )
    length = sum(len(word) + 1 for word in job.command)
    if len(job.command) >= MOST_ARGUMENTS or length >= LONGEST_COMMAND:
        raise OperationError(
            f"the command of job {job.id} is not known to its end: it may have"
            f" more than {MOST_ARGUMENTS} arguments or {LONGEST_COMMAND} characters"
        )
