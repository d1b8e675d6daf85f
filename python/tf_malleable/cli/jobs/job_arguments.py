# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job arguments, and actions on several jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

import click

from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.completion import complete_jobs
from tf_malleable.model import OperationError

_Command = TypeVar("_Command", bound=Callable[..., object])


def job_argument(command: _Command) -> _Command:
    """Add the argument JOB to a command, which gets it as `job`."""
    return click.argument("job", shell_complete=complete_jobs)(command)


def jobs_argument(command: _Command) -> _Command:
    """Add the argument JOB, which can be repeated, to a command, which gets it as `jobs`."""
    add = click.argument(
        "jobs", metavar="JOB...", nargs=-1, required=True, shell_complete=complete_jobs
    )
    return add(command)


def find_all(client: Client, jobs: Sequence[str]) -> list[JobStatus]:
    """Return the live jobs with these ids or names, each once.

    Raises:
        OperationError: One of the jobs does not exist, or several jobs have the same name.
    """
    live = client.jobs()
    return list({job.id: job for job in (client.find(each, live) for each in jobs)}.values())


def to_each(jobs: Iterable[JobStatus], action: Callable[[JobStatus], None]) -> None:
    """Apply an action to each job, even if the controller refuses it for some.

    Raises:
        OperationError: The controller refuses the action for the only job.
        SystemExit: The controller refuses it for some of several jobs; the reasons are printed.
        NoAnswerError: The controller cannot be reached.
    """
    jobs = list(jobs)
    failed = False
    for job in jobs:
        try:
            action(job)
        except NoAnswerError:
            raise
        except OperationError as error:
            if len(jobs) == 1:
                raise
            failed = True
            click.echo(f"tfm: job {job.id}: {error}", err=True)
    if failed:
        raise SystemExit(OperationError.exit_code)
