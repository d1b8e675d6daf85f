# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm set, pause, resume, cancel: change jobs.

Each command prints one line per job, which says whether the change is done, was not needed,
or is pending until the job responds or cores are free.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from tf_malleable.api.schema.job_request import MOST_CORES
from tf_malleable.api.schema.messages import CoreChange, Jobs, JobStatus, Preview
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.jobs.job_arguments import find_all, job_argument, jobs_argument, to_each
from tf_malleable.cli.jobs.job_texts import state, title
from tf_malleable.cli.launch.queue import LACKING
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.model import format_cpuset
from tf_malleable.model.units import cores as cores_of
from tf_malleable.model.units import printable

# Agents acknowledge within some 10 ms, and most programs obey SIGTERM.
_PATIENCE_SECONDS = 1.0
_POLL_SECONDS = 0.02


@click.command("set")
@job_argument
@click.argument("cores", required=False)
@click.option("--priority", type=int, metavar="N", help="Priority; jobs with higher ones go first.")
@click.option("--max", "most", type=int, metavar="N", help="Maximum number of cores.")
@click.option("--dry-run", is_flag=True, help="Only show which jobs would lose or get cores.")
@json_option
@socket_option
def set_cores(
    client: Client,
    job: str,
    cores: str | None,
    priority: int | None,
    most: int | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Set the number of CORES of a JOB by hand, its priority, or its most cores.

    JOB is an id, or a name that only one job has. CORES is a number, or auto to let the
    policy decide again. Before it takes cores from other jobs, it says from which.
    """
    asked = {"priority": priority, "max": most}
    request = {name: value for name, value in asked.items() if value is not None}
    if cores is None and not request:
        raise click.UsageError("nothing to set: give CORES, --priority or --max")
    if dry_run and (cores is None or request):
        raise click.UsageError("--dry-run is for CORES alone")
    wanted = None if cores is None else _parse_cores(cores)
    before = client.find(job)
    path = f"/v1/jobs/{before.id}"
    said: list[str] = []
    if cores is not None:
        preview = client.get(f"{path}/preview?cores={wanted or 0}", Preview)
        if dry_run:
            _show_preview(preview, before, as_json)
            return
        taken = [each for each in _of_others(preview, before) if each.after < each.before]
        if taken and not as_json:
            click.echo(f"{title(before)}: takes {', '.join(_loss(each) for each in taken)}")
    after = before
    if request:
        after = client.ask("PATCH", path, JobStatus, request)
        now = {"priority": after.priority, "max": after.max}
        said += [_set_to(name, value, now[name]) for name, value in request.items()]
    if cores is not None:
        after = client.ask("PUT", f"{path}/cores", JobStatus, {"cores": wanted})
        said.append(_decided(wanted, before))
    latest = _settled(client, after)
    if as_json:
        print_json(latest or after)
    else:
        click.echo(f"{title(after)}: {', '.join(said)}; {_cores(latest)}")


def _set_to(name: str, wanted: int, now: int) -> str:
    lower = "" if now == wanted else f", not {wanted}: there are no more here"
    return f"{name} set to {now}{lower}"


def _decided(wanted: int | None, before: JobStatus) -> str:
    """Return a phrase that says how a job's cores are decided from now on."""
    if wanted == before.by_hand:
        decider = "decided by the policy" if wanted is None else "set by hand"
        return f"no change, its cores are already {decider}"
    if wanted is None:
        return "its cores are decided by the policy again"
    return f"set to {cores_of(wanted)} by hand"


def _of_others(preview: Preview, job: JobStatus) -> list[CoreChange]:
    return [each for each in preview.changes if each.id != job.id]


def _loss(change: CoreChange) -> str:
    lost = cores_of(change.before - change.after)
    return f"{lost} from job {change.id} ({printable(change.name)}, {change.user})"


def _show_preview(preview: Preview, job: JobStatus, as_json: bool) -> None:
    if as_json:
        print_json(preview)
        return
    if not _of_others(preview, job):
        click.echo(f"{title(job)}: no other job's cores would change")
    for each in _of_others(preview, job):
        click.echo(
            f"job {each.id} ({printable(each.name)}, {each.user}): {cores_of(each.before)} now,"
            f" would have {each.after}"
        )


def _parse_cores(text: str) -> int | None:
    if text == "auto":
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_CORES):
        raise ValueError(f"CORES must be auto or an integer from 1 to {MOST_CORES}, not {text!r}")
    return int(text)


@click.command()
@jobs_argument
@json_option
@socket_option
def pause(client: Client, jobs: tuple[str, ...], as_json: bool) -> None:
    """Stop jobs and take their cores away, until tfm resume.

    Each JOB is an id, or a name that only one job has.
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
def resume(client: Client, jobs: tuple[str, ...], as_json: bool) -> None:
    """Let paused jobs have cores again, as the policy decides.

    Each JOB is an id, or a name that only one job has.
    """

    def said(before: JobStatus, after: JobStatus) -> str:
        how = "resumed" if before.paused_by_user else "no change, it is not paused"
        return f"{how}; {_cores(_settled(client, after))}"

    _change(client, jobs, "resume", said, as_json)


@click.command()
@jobs_argument
@json_option
@socket_option
def cancel(client: Client, jobs: tuple[str, ...], as_json: bool) -> None:
    """End jobs with SIGTERM, and SIGKILL after 10 seconds.

    SIGTERM goes to the program that was started, which may end its other processes in order. What
    it leaves gets SIGTERM when it has ended, or after 5 seconds.

    Each JOB is an id, or a name that only one job has.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS

    def said(before: JobStatus, after: JobStatus) -> str:
        if _within_patience(lambda: _is_gone(client, after.id), deadline):
            return "cancelled; it has ended"
        return "cancelled; pending, it is still running"

    _change(client, jobs, "cancel", said, as_json)


def _change(
    client: Client,
    jobs: tuple[str, ...],
    verb: str,
    said: Callable[[JobStatus, JobStatus], str],
    as_json: bool,
) -> None:
    """Change each of these jobs, then say what has become of them, in the order given.

    Args:
        client: Client of the controller.
        jobs: Ids or names of the jobs.
        verb: Last part of the path of the change.
        said: Describes the change of a job, from its state before and after.
        as_json: Whether to print the single job, or a list of several, as JSON.
    """
    found = find_all(client, jobs)
    # Those in the queue first: they must not start on the cores of the others.
    ordered = sorted(found, key=lambda job: job.state != "waiting")
    changed: dict[str, JobStatus] = {}

    def one(job: JobStatus) -> None:
        changed[job.id] = client.ask("POST", f"/v1/jobs/{job.id}/{verb}", JobStatus)

    try:
        to_each(ordered, one)
    finally:
        both = [(job, changed[job.id]) for job in found if job.id in changed]
        if as_json and both:
            after = [_settled(client, job) or job for _, job in both]
            print_json(after[0] if len(found) == 1 else Jobs(after))
        elif not as_json:
            for before, job in both:
                click.echo(f"{title(job)}: {said(before, job)}")


def _cores(job: JobStatus | None) -> str:
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


def _settled(client: Client, job: JobStatus) -> JobStatus | None:
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
