# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm pause, resume, cancel: change jobs.

Each command prints one line per job, which says whether the change is done, was not needed,
or is pending until the job responds or cores are free.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from tf_malleable.api.schema.messages import Jobs, JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.jobs.job_arguments import Selection, find_all, jobs_argument, to_each
from tf_malleable.cli.jobs.job_texts import state, title
from tf_malleable.cli.launch.queue import LACKING
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.model import format_cpuset

# Agents acknowledge within some 10 ms, and most programs obey SIGTERM.
_PATIENCE_SECONDS = 1.0
_POLL_SECONDS = 0.02


@click.command()
@jobs_argument
@json_option
@socket_option
def pause(client: Client, jobs: Selection, as_json: bool) -> None:
    """Stop jobs and take their cores away, until tfm resume.

    Each JOB is an id, a name that only one job has, the name of an array, or a pattern such as
    'fold*' for names of your jobs.
    """

    def said(before: JobStatus, after: JobStatus) -> str:
        if before.paused_by_user:
            return "no change, it is already paused"
        where = " in the queue" if after.state == "waiting" else ""
        return f"paused{where}; resume it with: tfm resume {after.id}"

    _change(client, jobs, "pause", said, as_json)


@click.command()
@jobs_argument
@json_option
@socket_option
def resume(client: Client, jobs: Selection, as_json: bool) -> None:
    """Let paused jobs have cores again, as the policy decides.

    Each JOB is an id, a name that only one job has, the name of an array, or a pattern such as
    'fold*' for names of your jobs.
    """

    def said(before: JobStatus, after: JobStatus) -> str:
        how = "resumed" if before.paused_by_user else "no change, it is not paused"
        return f"{how}; {cores_now(settled(client, after))}"

    _change(client, jobs, "resume", said, as_json)


@click.command()
@jobs_argument
@json_option
@socket_option
def cancel(client: Client, jobs: Selection, as_json: bool) -> None:
    """End jobs with SIGTERM, and SIGKILL after 10 seconds.

    SIGTERM goes to the program that was started, which may end its other processes in order. What
    it leaves gets SIGTERM when it has ended, or after 5 seconds.

    Each JOB is an id, a name that only one job has, the name of an array, or a pattern such as
    'fold*' for names of your jobs.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS

    def said(before: JobStatus, after: JobStatus) -> str:
        if _within_patience(lambda: _is_gone(client, after.id), deadline):
            return "cancelled; it has ended"
        return "cancelled; pending, it is still running"

    _change(client, jobs, "cancel", said, as_json)


def _change(
    client: Client,
    jobs: Selection,
    verb: str,
    said: Callable[[JobStatus, JobStatus], str],
    as_json: bool,
) -> None:
    """Change each of these jobs, then say what has become of them, in the order given.

    Args:
        client: Client of the controller.
        jobs: The jobs.
        verb: Last part of the path of the change.
        said: Describes the change of a job, from its state before and after.
        as_json: Whether to print the single job, or a list of several, as JSON.
    """
    found = find_all(client, jobs)
    # Those in the queue first: they must not start on the cores of the others.
    ordered = sorted(found, key=lambda job: job.state != "waiting")
    if not found and not as_json:
        click.echo("there are no such jobs")
    changed: dict[str, JobStatus] = {}

    def one(job: JobStatus) -> None:
        changed[job.id] = client.ask("POST", f"/v1/jobs/{job.id}/{verb}", JobStatus)

    try:
        to_each(ordered, one)
    finally:
        both = [(job, changed[job.id]) for job in found if job.id in changed]
        if as_json and (both or not found):
            after = [settled(client, job) or job for _, job in both]
            print_json(after[0] if len(found) == 1 else Jobs(after))
        elif not as_json:
            for before, job in both:
                click.echo(f"{title(job)}: {said(before, job)}")


def cores_now(job: JobStatus | None) -> str:
    """Describe a job's cores, and pending changes; None stands for a job that has ended."""
    if job is None:
        return "it has ended in the meantime"
    if job.paused_by_user:
        return f"pending, it is paused; resume it with: tfm resume {job.id}"
    if job.stopped:
        return "pending, its processes were stopped by a signal"
    if job.lacks is not None:
        return f"pending, it is {state(job)} for {LACKING[job.lacks]}"
    if job.state != "running":
        return f"pending, it is {state(job)} until enough cores are free"
    if job.actual != job.granted and job.reason is not None:
        return job.reason
    if job.actual != job.granted:
        return f"pending, it has not acknowledged CPUs {format_cpuset(job.granted)} yet"
    if not job.granted:
        return f"it has lent CPUs {format_cpuset(job.lent)} until it needs them"
    return f"it runs on CPUs {format_cpuset(job.granted)}"


def settled(client: Client, job: JobStatus) -> JobStatus | None:
    """Return a job's state once its grant is actual, at the latest after one second.

    The result is None if the job has ended in the meantime.
    """
    latest: JobStatus | None = job

    def is_settled() -> bool:
        nonlocal latest
        if latest is None or latest.state != "running" or latest.actual == latest.granted:
            return True
        latest = next((each for each in client.jobs() if each.id == job.id), None)
        return False

    _within_patience(is_settled)
    return latest


def _is_gone(client: Client, job: str) -> bool:
    return all(each.id != job for each in client.jobs())


def _within_patience(condition: Callable[[], bool], deadline: float | None = None) -> bool:
    """Wait for a condition, for a second or until a time of time.monotonic()."""
    if deadline is None:
        deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
