# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm show: shows all data of one job, and why it has no cores."""

from __future__ import annotations

import shlex
from datetime import datetime

import click

from tf_malleable.api.schema.elastic import Elastic
from tf_malleable.api.schema.history import JobRecord
from tf_malleable.api.schema.messages import JobStatus, Outlook
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.ended_jobs import find_ended, no_such_job
from tf_malleable.cli.jobs.job_arguments import job_argument
from tf_malleable.cli.jobs.job_texts import (
    actual,
    desired,
    granted,
    last_change,
    outcome,
    per_step,
    progress,
    state,
    threads_of,
)
from tf_malleable.cli.jobs.limit_windows import limits_text, usual_text
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.model import OperationError, format_cpuset
from tf_malleable.model.schedules.time_window import parse_window
from tf_malleable.model.units import duration, energy, number, percent, printable, short, size_text


@click.command()
@job_argument
@json_option
@socket_option
def show(client: Client, job: str, as_json: bool) -> None:
    """Show the details of a JOB, live or ended, with the reason if it has no cores.

    The reason why a job has not ended although its program has is shown, too. A line "pool" stands
    for each library with threads of its own that the job's processes have loaded, and says how
    these threads follow the job's cores.

    JOB is an id, or a name; of ended jobs with the same name, the last is shown.
    """
    live = client.jobs()
    if any(job in (each.id, each.name) for each in live):
        found = client.find(job, live)
        outlook = _outlook(client, found)
        if as_json:
            print_json({"job": found, "outlook": outlook})
        else:
            _print(_live_lines(found, outlook))
        return
    ended = find_ended(client, job)
    if ended is None:
        raise no_such_job(job)
    if as_json:
        print_json({"job": ended, "outlook": None})
    else:
        _print(_ended_lines(ended))


def _outlook(client: Client, job: JobStatus) -> Outlook | None:
    """Return the outlook of a job; None if it belongs to another user or has ended meanwhile."""
    try:
        return client.get(f"/v1/jobs/{job.id}/outlook", Outlook)
    except OperationError:
        return None


def _print(lines: list[tuple[str, str]]) -> None:
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        click.echo(f"{name:<{width}}  {printable(value)}")


def _live_lines(job: JobStatus, outlook: Outlook | None) -> list[tuple[str, str]]:
    by_hand = ", set by hand" if job.by_hand is not None else ""
    speeds = ", ".join(f"{number(each.steps_per_second)} with {each.cores}" for each in job.speeds)
    lines = [
        ("job", job.id),
        ("name", job.name),
        ("command", shlex.join(job.command) or "-"),
        ("user", job.user),
        ("group", job.group or "-"),
        ("process", _process(job)),
        ("state", state(job)),
        *_why(outlook),
        ("cores asked for", f"{job.min} to {job.max}, preferably {job.preferred}"),
        ("cores desired", f"{desired(job).rstrip('*')}{by_hand}"),
        ("cores granted", f"{granted(job)} (CPUs {_cpus(job.granted)})"),
        ("cores actual", f"{actual(job)} (CPUs {_cpus(job.actual)})"),
        *([("confined", job.confined)] if job.confined else []),
        *(("pool", threads_of(each)) for each in job.pools),
        ("cores kept busy", number(job.used_cpus)),
        ("priority", str(job.priority)),
        ("weight", f"{job.weight:g}"),
        ("arrived", _at(job.submitted)),
        ("started", "-" if job.started is None else _at(job.started)),
        ("waited", duration(job.waiting_seconds)),
        ("ran", duration(job.run_seconds)),
        ("paused or held", duration(job.paused_seconds)),
        ("expected run time", duration(job.expected_seconds)),
        ("time to first step", duration(job.startup_seconds)),
        ("time limit", duration(job.time_limit)),
        *_window_lines(job),
        ("starts after", ", ".join(job.after) or "-"),
        *([("starts if ended well", ", ".join(job.after_ok))] if job.after_ok else []),
        ("memory asked for", size_text(job.mem)),
        ("memory expected", size_text(job.expected_mem)),
        ("memory used", f"{size_text(job.used_mem)} now, {size_text(job.peak_mem)} at most"),
        ("GPUs asked for", str(job.gpus)),
        ("GPUs granted", _listed(job.granted_gpus)),
        ("steps done", f"{number(job.steps_done, 0)} ({percent(progress(job))})"),
        ("steps/s", number(job.steps_per_second)),
        *_request_lines(job),
        *_energy_lines(job, job.steps_done),
        ("known speeds", f"{speeds} cores" if speeds else "-"),
        ("resizes", str(job.resizes)),
        ("output", job.output or "-"),
    ]
    if job.container is not None:
        container = f"{job.container.name}, image {job.container.image or '-'}"
        lines.insert(6, ("container", container))
    return lines + _elastic_lines(job.elastic)


def _window_lines(job: JobStatus) -> list[tuple[str, str]]:
    lines = []
    if job.between is not None:
        lines.append(("may run", parse_window(job.between, job.days).phrase))
    lines += [("scheduled", limits_text(each)) for each in job.schedule]
    if job.usual_limits is not None:
        lines.append(("otherwise", usual_text(job.usual_limits)))
    return lines


def _process(job: JobStatus) -> str:
    if job.pid is not None:
        return str(job.pid)
    if job.main_ended is None:
        return "-"
    code = "" if job.exit_code is None else f", exit code {job.exit_code}"
    return f"ended {_at(job.main_ended)}{code}"


def _elastic_lines(elastic: Elastic | None) -> list[tuple[str, str]]:
    if elastic is None:
        return []
    return [
        ("workers", f"{elastic.workers} ({elastic.most_workers} at most)"),
        ("servers", str(elastic.servers)),
        ("generation", str(elastic.generation)),
        ("last change", last_change(elastic)),
        (
            "pause",
            f"{short(elastic.pause_seconds)} ({short(elastic.longest_pause_seconds)} at most)",
        ),
    ]


def _request_lines(job: JobStatus | JobRecord) -> list[tuple[str, str]]:
    objective = [] if job.slo is None else [("objective", job.slo)]
    latency = job.latency
    if latency is None:
        return objective
    rate = f", {latency.per_second:g} a second" if latency.per_second else ""
    flight = f", {latency.in_flight} in flight" if latency.in_flight else ""
    lines = [*objective, ("requests", f"{latency.requests}{rate}{flight}")]
    if latency.p50 is not None:
        lines.append(("latency", f"{_ms(latency.p50)} (p50), {_ms(latency.p99)} (p99)"))
    return lines


def _ms(seconds: float | None) -> str:
    """Return a latency as text: 0.42 ms, 5.3 ms, 48 ms, 1.2 s."""
    if seconds is None or seconds >= 0.01:
        return short(seconds)
    return f"{1000 * seconds:.2g} ms"


def _energy_lines(job: JobStatus | JobRecord, steps: float | None) -> list[tuple[str, str]]:
    if job.energy_joules is None:
        return []
    return [
        ("energy", f"{energy(job.energy_joules)} ({job.energy_source})"),
        ("energy per step", energy(per_step(job.energy_joules, steps))),
        ("area", job.area or "the host's"),
    ]


def _why(outlook: Outlook | None) -> list[tuple[str, str]]:
    """Return why a job has no cores or has not ended, and when it is expected to have some."""
    if outlook is None or outlook.reason is None:
        return []
    lines = [("reason", outlook.reason)]
    if outlook.expected_start is not None:
        guess = ", a guess: not all run times are known" if outlook.guessed else ""
        lines.append(("expected start", f"{_at(outlook.expected_start)}{guess}"))
    return lines


def _ended_lines(job: JobRecord) -> list[tuple[str, str]]:
    return [
        ("job", job.id),
        ("name", job.name),
        ("command", shlex.join(job.command) or "-"),
        ("user", job.user),
        ("group", job.group or "-"),
        ("outcome", outcome(job)),
        ("exit code", "-" if job.exit_code is None else str(job.exit_code)),
        ("arrived", _at(job.submitted)),
        ("started", "-" if job.started is None else _at(job.started)),
        ("ended", _at(job.ended)),
        ("waited", duration(job.waiting_seconds)),
        ("ran", duration(job.service_seconds)),
        ("paused or held", duration(job.paused_seconds)),
        ("cores times seconds", number(job.core_seconds)),
        ("CPU time", duration(job.cpu_seconds)),
        ("memory asked for", size_text(job.mem)),
        ("memory used", f"{size_text(job.peak_mem)} at most"),
        ("GPUs granted", _listed(job.gpus)),
        ("steps done", number(job.steps, 0)),
        *_request_lines(job),
        *_energy_lines(job, job.steps),
        ("resizes", str(job.resizes)),
        ("output", job.output or "-"),
        *_killed_lines(job),
        *_elastic_lines(job.elastic),
    ]


def _killed_lines(job: JobRecord) -> list[tuple[str, str]]:
    if not job.killed:
        return []
    more = job.killed - len(job.killed_commands)
    which = [*job.killed_commands, *([f"{more} more"] if more else [])]
    return [("killed leftovers", f"{job.killed}: {', '.join(which)}")]


def _cpus(cpus: list[int]) -> str:
    return format_cpuset(frozenset(cpus)) or "none"


def _listed(numbers: list[int]) -> str:
    return ", ".join(map(str, numbers)) or "-"


def _at(time: float) -> str:
    return datetime.fromtimestamp(time).strftime("%b %d %H:%M:%S")
