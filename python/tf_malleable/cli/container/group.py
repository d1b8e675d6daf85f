# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm container: jobs that are containers, by the containers' names."""

from __future__ import annotations

import click

from tf_malleable.api.client import Client
from tf_malleable.api.messages import Jobs, JobStatus
from tf_malleable.cli import control
from tf_malleable.cli.container.run import run
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.cli.words import desired, granted, state
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

    They share the machine with the jobs of tfm run: the same queue, the same policy,
    tfm jobs and tfm top show them too.
    """


container.add_command(run)


@container.command("list")
@json_option
@socket_option
def list_containers(client: Client, as_json: bool) -> None:
    """List the jobs that are containers.

    Cores are desired (asked for; a star marks those set by hand), granted (by the
    policy) and actual (in force in the container's cgroup, and acknowledged by the
    agent inside if there is one).
    """
    # tfm container run does without, and is not to wait for it.
    from tf_malleable.cli.tables import console, table

    found = [job for job in client.jobs() if job.container is not None]
    if as_json:
        print_json(Jobs(found))
    elif not found:
        click.echo("there are no containers among the jobs")
    else:
        console().print(table(_COLUMNS, [_row(job) for job in found]))


@container.command("set")
@click.argument("container")
@click.argument("cores")
@json_option
@socket_option
@click.pass_context
def set_cores(
    context: click.Context, client: Client, container: str, cores: str, as_json: bool
) -> None:
    """Set the CORES of a CONTAINER by hand, until: tfm container set CONTAINER auto."""
    job = _find(client, container).id
    context.invoke(control.set_cores, client=client, job=job, cores=cores, as_json=as_json)


@container.command()
@click.argument("container")
@json_option
@socket_option
@click.pass_context
def pause(context: click.Context, client: Client, container: str, as_json: bool) -> None:
    """Freeze a CONTAINER and take its cores away, until: tfm container resume CONTAINER."""
    job = _find(client, container).id
    context.invoke(control.pause, client=client, job=job, as_json=as_json)


@container.command()
@click.argument("container")
@json_option
@socket_option
@click.pass_context
def resume(context: click.Context, client: Client, container: str, as_json: bool) -> None:
    """Let a paused CONTAINER have cores again, as the policy decides."""
    job = _find(client, container).id
    context.invoke(control.resume, client=client, job=job, as_json=as_json)


@container.command()
@click.argument("container")
@json_option
@socket_option
@click.pass_context
def stop(context: click.Context, client: Client, container: str, as_json: bool) -> None:
    """End a CONTAINER: SIGTERM to its first process, later SIGKILL."""
    job = _find(client, container).id
    context.invoke(control.cancel, client=client, job=job, as_json=as_json)


def _find(client: Client, name: str) -> JobStatus:
    """Return the job that is a container of this name, or whose id begins so.

    Raises:
        OperationError: There is none; the controller says why.
    """
    for job in client.jobs():
        if job.container is not None and name == job.container.name:
            return job
    # It knows it by a part of its id, or takes it up only now, or says what it is not.
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
