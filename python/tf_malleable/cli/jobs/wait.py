# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm wait: waits until jobs have ended."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import click

from tf_malleable.api.schema.history import JobRecord
from tf_malleable.api.schema.job_names import array_base
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.background.outputs import is_kept, is_resuming
from tf_malleable.cli.ended_jobs import (
    ended_of_group,
    find_ended,
    last_array,
    last_attempt,
    no_such_group,
    no_such_job,
)
from tf_malleable.cli.jobs.job_arguments import (
    Selection,
    is_pattern,
    jobs_argument,
    named,
    of_caller,
    of_group,
)
from tf_malleable.cli.jobs.job_texts import outcome, title
from tf_malleable.cli.options import socket_option
from tf_malleable.controller.state.exit_file import read_exit
from tf_malleable.model import OperationError

_POLL_SECONDS = 0.2
# Longest time after the end of a job until its exit code is recorded.
_PATIENCE_SECONDS = 1.0
_FAILED = 1


@click.command()
@jobs_argument
@socket_option
def wait(client: Client, jobs: Selection) -> None:
    """Wait until jobs have ended, and exit as they did; without JOB, all live jobs of yours.

    Each JOB is an id, a name, the name of an array, or a pattern such as 'fold*' for names of
    live jobs. With --group, these are all jobs of the group, live or ended. The exit code is that
    of the first job, in the order given, that has not ended with 0; for a job that was cancelled,
    or whose exit code is not known, it is 1 if it has none. Of a job with --retries, it is that of
    the last attempt.
    """
    live = client.jobs()
    result = 0
    for record, code in await_ends(client, selected(client, jobs, live), live):
        how = "" if code is None else f", exit code {code}"
        click.echo(f"{title(record)}: {outcome(record)}{how}")
        if code is None:
            code = 0 if record.outcome == "finished" else _FAILED
        result = result or code
    if result:
        raise SystemExit(result)


def await_ends(
    client: Client, wanted: Sequence[str], live: Sequence[JobStatus]
) -> Iterator[tuple[JobRecord, int | None]]:
    """Wait until jobs have ended, then yield the last attempt of each, and its exit code.

    Args:
        client: Client of the controller, which may restart meanwhile.
        wanted: Ids of the jobs.
        live: All live jobs.

    Raises:
        OperationError: A job is not in the history.
    """
    _wait(client, {each.id for each in live} & set(wanted))
    seen: set[str] = set()
    for identity in wanted:
        record = find_ended(client, identity)
        if record is None:
            raise OperationError(f"job {identity} has ended, but is not in the history")
        record = _last_attempt(client, record)
        if record.id not in seen:
            seen.add(record.id)
            yield record, _exit_code(record)


def selected(client: Client, jobs: Selection, live: list[JobStatus]) -> list[str]:
    """Return the ids of the selected jobs, live or ended; by default, all live ones of the caller.

    Raises:
        OperationError: One of the jobs does not exist, or several live jobs have the same name.
    """
    if jobs.everyone:
        return [each.id for each in live]
    if jobs.group is not None:
        found: list[JobStatus | JobRecord] = [
            *of_group(client, jobs.group, live),
            *ended_of_group(client, jobs.group),
        ]
        if not found:
            raise no_such_group(jobs.group)
        return [each.id for each in sorted(found, key=lambda job: job.submitted)]
    if not jobs.jobs:
        return [each.id for each in of_caller(client, live)]
    wanted: list[str] = []
    for job in jobs.jobs:
        is_known = any(job in (each.id, each.name, array_base(each.name)) for each in live)
        if not is_known and (ended := find_ended(client, job)):
            wanted.append(ended.id)
        elif array := last_array(client, job, live):
            wanted += array
        elif is_known or is_pattern(job):
            wanted += [each.id for each in named(client, job, live)]
        else:
            raise no_such_job(job, several=True)
    return wanted


def _wait(client: Client, jobs: set[str]) -> None:
    """Wait until none of these jobs is live; a controller may restart meanwhile."""
    while jobs:
        time.sleep(_POLL_SECONDS)
        with suppress(NoAnswerError):
            jobs = jobs & {each.id for each in client.jobs()}


def _last_attempt(client: Client, job: JobRecord) -> JobRecord:
    """Return the last attempt of an ended job, once there will be no further ones."""
    if job.output is None:
        return job
    while is_kept(Path(job.output), job.user) or is_resuming():
        time.sleep(_POLL_SECONDS)
    # The controller may not have seen the end of the last one yet.
    _wait(client, {each.id for each in client.jobs() if each.output == job.output})
    return last_attempt(client, job)


def _exit_code(record: JobRecord) -> int | None:
    """Return a job's exit code from the controller or the job's keeper; None if unknown."""
    if record.exit_code is not None or record.output is None or record.outcome == "interrupted":
        return record.exit_code
    deadline = time.monotonic() + _PATIENCE_SECONDS
    whose = (record.user, record.id, record.submitted)
    while (recorded := read_exit(Path(record.output), *whose)) is None:
        if time.monotonic() > deadline:
            return None
        time.sleep(_POLL_SECONDS / 2)
    return recorded.code
