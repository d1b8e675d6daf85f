# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command group tfm container: lists and changes container jobs, by the containers' names."""

from __future__ import annotations

from collections.abc import Callable

import click

from tf_malleable.api.schema.messages import Jobs, JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.container.run import run
from tf_malleable.cli.jobs import control, set_cores
from tf_malleable.cli.jobs.job_texts import desired, granted, state
from tf_malleable.cli.jobs.set_cores import CommandWithMinus
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.model.units import duration, number

_COLUMNS = (
    "container",
    "name",
    "image",
    ">job",
    "state",
    ">desired",
    ">granted",
    ">actual",
    ">CPUs",
    ">waited",
)
_SHORT_ID = 12


@click.group()
def container() -> None:
    """Run containers as jobs, and change their cores.

    Containers share the machine with the jobs of tfm run: they have the same queue and
    policy, and tfm jobs and tfm top show them too.
    """


container.add_command(run)


@container.command("list")
@json_option
@socket_option
def list_containers(client: Client, as_json: bool) -> None:
    """List the containers among the jobs.

    Cores are desired (asked for; a star marks those set by hand), granted (by the
    policy) and actual (in force in the container's cgroup, and acknowledged by the
    agent inside if there is one).
    """
    # Imported here because tfm container run does not need it and must start fast.
    from tf_malleable.cli.tables import console, table

    found = [job for job in client.jobs() if job.container is not None]
    if as_json:
        print_json(Jobs(found))
    elif not found:
        click.echo("there are no containers")
    else:
        console().print(table(_COLUMNS, [_row(job) for job in found]))


@container.command("set", cls=CommandWithMinus)
@click.argument("container")
@click.argument("cores")
@json_option
@socket_option
@click.pass_context
def set_container_cores(
    context: click.Context, client: Client, container: str, cores: str, as_json: bool
) -> None:
    """Set the number of CORES of a CONTAINER by hand.

    CORES is a number, a difference such as +1 or -1, max, or auto to let the policy decide
    again.
    """
    job = _find(client, container).id
    context.invoke(
        set_cores.set_cores,
        client=client,
        job=job,
        cores=cores,
        priority=None,
        most=None,
        dry_run=False,
        as_json=as_json,
    )


def _add_command(name: str, action: Callable[..., None], summary: str) -> None:
    """Add a command that applies a command for jobs to containers."""

    @container.command(name, help=summary)
    @click.argument("containers", metavar="CONTAINER...", nargs=-1, required=True)
    @json_option
    @socket_option
    @click.pass_context
    def command(
        context: click.Context, client: Client, containers: tuple[str, ...], as_json: bool
    ) -> None:
        jobs = tuple(_find(client, each).id for each in containers)
        context.invoke(action, client=client, jobs=jobs, as_json=as_json)


_add_command(
    "pause",
    control.pause,
    "Freeze each CONTAINER until tfm container resume.",
)
_add_command(
    "resume",
    control.resume,
    "Let each paused CONTAINER have cores again, as the policy decides.",
)
_add_command(
    "stop",
    control.cancel,
    "End each CONTAINER with SIGTERM, and SIGKILL after 10 seconds.",
)


def _find(client: Client, name: str) -> JobStatus:
    """Return the job of a container, by the container's name, id, or prefix of its id.

    Raises:
        OperationError: There is no such job; the message has the controller's reason.
    """
    for job in client.jobs():
        if job.container is not None and name == job.container.name:
            return job
    # The controller knows prefixes of ids, and containers that are not jobs yet.
    return client.ask("POST", "/v1/containers", JobStatus, {"container": name})


def _row(job: JobStatus) -> tuple[str, ...]:
    assert job.container is not None
    return (
        job.container.id[:_SHORT_ID],
        job.container.name,
        job.container.image,
        job.id,
        state(job),
        desired(job),
        granted(job),
        str(len(job.actual)),
        number(job.used_cpus),
        duration(job.waiting_seconds),
    )
