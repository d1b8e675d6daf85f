# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm logs: prints the output of a job that runs, or ran, in the background."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import click

from tf_malleable.api.schema.history import JobRecord
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.ended_jobs import find_ended, no_such_job
from tf_malleable.cli.jobs.job_arguments import job_argument
from tf_malleable.cli.jobs.job_texts import title
from tf_malleable.cli.launch.outputs import is_kept
from tf_malleable.cli.options import socket_option
from tf_malleable.controller.state.exit_file import open_output
from tf_malleable.model import OperationError

_POLL_SECONDS = 0.2
_PIECE = 1 << 16


@click.command()
@job_argument
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the job ends.")
@socket_option
def logs(client: Client, job: str, follow: bool) -> None:
    """Print the output of a JOB of tfm submit.

    JOB is an id, or a name; among ended jobs with the same name, the last is meant.
    """
    if client.connect is not None:
        raise OperationError(
            f"the output of job {job} is at {client.socket}: use ssh and tfm logs there"
        )
    live = client.jobs()
    found: JobStatus | JobRecord | None
    if any(job in (each.id, each.name) for each in live):
        found = client.find(job, live)
    else:
        found = find_ended(client, job)
    if found is None:
        raise no_such_job(job)
    if found.output is None:
        raise OperationError(
            f"no output is known of {title(found)}: only that of your own jobs, started by"
            " tfm submit"
        )
    path = Path(found.output)
    is_over = _is_over_already
    if follow and (isinstance(found, JobStatus) or is_kept(path, found.user)):
        is_over = _watching(client, path, found.user)
    with open_output(path, found.user) as file:
        _print(file, is_over)


def _is_over_already() -> bool:
    return True


def _watching(client: Client, output: Path, user: str) -> Callable[[], bool]:
    """Return a function that polls once, after a pause, whether a job's last attempt is over."""

    def is_over() -> bool:
        time.sleep(_POLL_SECONDS)
        try:
            is_live = any(each.output == str(output) for each in client.jobs())
        except NoAnswerError:
            return False  # The next controller takes over the job.
        return not is_live and not is_kept(output, user)

    return is_over


def _print(file: BinaryIO, is_over: Callable[[], bool]) -> None:
    """Print the contents of a file, and what is appended until `is_over` returns True."""
    output = sys.stdout.buffer
    is_last = False
    while True:
        piece = file.read(_PIECE)
        if piece:
            output.write(piece)
            output.flush()
        elif is_last:
            return
        else:
            # Read once more: the last output may have been written just before the end.
            is_last = is_over()
