# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm jobs: lists the live jobs."""

from __future__ import annotations

import os

import click

from tf_malleable.api.schema.messages import Jobs, JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.background.outputs import output_folder
from tf_malleable.cli.background.stored_job import interrupted_jobs
from tf_malleable.cli.jobs.job_arguments import group_option, of_group
from tf_malleable.cli.jobs.job_texts import (
    actual,
    desired,
    granted,
    per_step,
    progress,
    state,
    title,
    why_waiting,
)
from tf_malleable.cli.messages import say
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.cli.tables import JobTable, console
from tf_malleable.model.units import duration, energy, number, percent, printable

_COLUMNS = (
    ">id",
    "name",
    "user",
    "state",
    ">desired",
    ">granted",
    ">actual",
    ">steps/s",
    ">done",
    ">CPUs",
    ">waited",
)
_SPARE = (">waited", ">CPUs", ">done", "user", ">steps/s", ">desired")
_KEPT = (">id", "name", "state", "reason")
# For hosts whose power is metered.
_ENERGY = (">watts", ">energy", ">per step", "source")


@click.command()
@group_option
@json_option
@socket_option
def jobs(client: Client, group: str | None, as_json: bool) -> None:
    """List the jobs that have not ended.

    A job waits until it first has cores, then runs. It is paused by a person, held without
    cores by the policy, or stopped by a signal.

    Cores are desired (asked for; a star marks those set by hand), granted (by the
    policy; +1 means one more is lent to others) and actual (acknowledged by the job; "confined" if
    TensorFlow, PyTorch or JAX in the job is not malleable).
    CPUs is the number that it keeps busy. Where the host's power is metered, the job's power, its
    energy so far and for each step are shown, and whether they were measured, estimated or
    replayed.

    Reason is why a job has no cores. Below the table are the reasons why jobs are being ended, last
    although their program has ended, cannot use all granted cores, or are confined. A narrow
    terminal shows the columns for which there is room.

    Jobs of tfm submit that a reboot has interrupted are counted on stderr.
    """
    found = client.jobs()
    if group is not None:
        found = of_group(client, group, found)
    if as_json:
        print_json(Jobs(found))
    elif not found:
        click.echo("there are no jobs" if group is None else f"no job of group {group} is live")
    else:
        is_metered = any(job.energy_joules is not None for job in found)
        waits = any(why_waiting(job) for job in found)
        columns = (
            *_COLUMNS,
            *(_ENERGY if is_metered else ()),
            *(("reason",) if waits else ()),
        )
        rows = [
            (
                *_row(job),
                *(_energy(job) if is_metered else ()),
                *((why_waiting(job),) if waits else ()),
            )
            for job in found
        ]
        console().print(JobTable(columns, rows, _KEPT, _SPARE))
        for job in found:
            reason = None if why_waiting(job) else job.reason
            for sentence in filter(None, (reason, job.confined)):
                click.echo(f"{title(job)}: {printable(sentence)}")
    if not as_json and client.connect is None and group is None:
        outputs = {job.output for job in found}
        socket = os.path.abspath(client.socket)
        count = len(interrupted_jobs(output_folder(), socket, outputs))
        if count:
            what = "1 job was" if count == 1 else f"{count} jobs were"
            say(f"{what} interrupted: tfm submit --resume")


def _row(job: JobStatus) -> tuple[str, ...]:
    return (
        job.id,
        job.name,
        job.user,
        state(job),
        desired(job),
        granted(job),
        actual(job),
        number(job.steps_per_second),
        percent(progress(job)),
        number(job.used_cpus),
        duration(job.waiting_seconds),
    )


def _energy(job: JobStatus) -> tuple[str, ...]:
    return (
        number(job.watts),
        energy(job.energy_joules),
        energy(per_step(job.energy_joules, job.steps_done)),
        job.energy_source or "-",
    )
