# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm set, pause, resume, cancel: change one job.

Each prints one line that says whether the change is done, was not needed, or is pending
until the job responds or cores are free.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import click

from tf_malleable.api.client import Client
from tf_malleable.api.job_request import MOST_CORES
from tf_malleable.api.messages import JobStatus
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.cli.words import state
from tf_malleable.model import format_cpuset
from tf_malleable.model.units import cores as cores_of
from tf_malleable.model.units import printable

# Agents acknowledge within some 10 ms, and most programs obey SIGTERM.
_PATIENCE_SECONDS = 1.0
_POLL_SECONDS = 0.02


@click.command("set")
@click.argument("job")
@click.argument("cores")
@json_option
@socket_option
def set_cores(client: Client, job: str, cores: str, as_json: bool) -> None:
    """Set the number of CORES of a JOB by hand.

    JOB is an id, or a name that only one job has. CORES is a number, or auto to let the
    policy decide again.
    """
    wanted = _parse_cores(cores)
    before = client.find(job)
    after = client.ask("PUT", f"/v1/jobs/{before.id}/cores", JobStatus, {"cores": wanted})
    latest = _settled(client, after)
    if as_json:
        print_json(latest or after)
        return
    if wanted == before.by_hand:
        decider = "decided by the policy" if wanted is None else "set by hand"
        said = f"no change, its cores are already {decider}"
    elif wanted is None:
        said = "its cores are decided by the policy again"
    else:
        said = f"set to {cores_of(wanted)} by hand"
    click.echo(f"{_title(after)}: {said}; {_cores(latest)}")


def _parse_cores(text: str) -> int | None:
    if text == "auto":
        return None
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= MOST_CORES):
        raise ValueError(f"CORES must be auto or an integer from 1 to {MOST_CORES}, not {text!r}")
    return int(text)


@click.command()
@click.argument("job")
@json_option
@socket_option
def pause(client: Client, job: str, as_json: bool) -> None:
    """Stop a JOB and take its cores away, until tfm resume."""
    before = client.find(job)
    after = client.ask("POST", f"/v1/jobs/{before.id}/pause", JobStatus)
    if as_json:
        print_json(after)
    elif before.held:
        click.echo(f"{_title(after)}: no change, it is already paused")
    elif after.state == "waiting":
        click.echo(f"{_title(after)}: paused in the queue; resume it with: tfm resume {after.id}")
    else:
        click.echo(f"{_title(after)}: paused; resume it with: tfm resume {after.id}")


@click.command()
@click.argument("job")
@json_option
@socket_option
def resume(client: Client, job: str, as_json: bool) -> None:
    """Let a paused JOB have cores again, as the policy decides."""
    before = client.find(job)
    after = client.ask("POST", f"/v1/jobs/{before.id}/resume", JobStatus)
    latest = _settled(client, after)
    if as_json:
        print_json(latest or after)
    else:
        said = "resumed" if before.held else "no change, it is not paused"
        click.echo(f"{_title(after)}: {said}; {_cores(latest)}")


@click.command()
@click.argument("job")
@json_option
@socket_option
def cancel(client: Client, job: str, as_json: bool) -> None:
    """End a JOB with SIGTERM, and SIGKILL after 10 seconds."""
    before = client.find(job)
    after = client.ask("POST", f"/v1/jobs/{before.id}/cancel", JobStatus)
    if as_json:
        print_json(after)
    elif _within_patience(lambda: _is_gone(client, after.id)):
        click.echo(f"{_title(after)}: cancelled; it has ended")
    else:
        click.echo(f"{_title(after)}: cancelled; pending, it is still running")


def _title(job: JobStatus) -> str:
    return f"job {job.id} ({printable(job.name)})"


def _cores(job: JobStatus | None) -> str:
    """Describe a job's cores, and what is pending; None stands for a job that has ended."""
    if job is None:
        return "it has ended in the meantime"
    if job.held:
        return f"pending, it is paused; resume it with: tfm resume {job.id}"
    if job.stopped:
        return "pending, its processes were stopped by a signal"
    if job.state != "running":
        return f"pending, it is {state(job)} until enough cores are free"
    if job.actual != job.granted:
        return f"pending, it has not acknowledged CPUs {format_cpuset(job.granted)} yet"
    if not job.granted:
        return f"it has lent CPUs {format_cpuset(job.lent)} until it needs them"
    return f"it runs on CPUs {format_cpuset(job.granted)}"


def _settled(client: Client, job: JobStatus) -> JobStatus | None:
    """Return a job's state once its grant is actual, at the latest after one second.

    None if it has ended in the meantime.
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


def _within_patience(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + _PATIENCE_SECONDS
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(_POLL_SECONDS)
    return True
