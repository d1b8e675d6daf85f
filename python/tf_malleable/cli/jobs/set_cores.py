# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm set: sets the cores of a job by hand, its priority, its most cores and its objective."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import click

from tf_malleable.api.schema.job_request import MOST_CORES
from tf_malleable.api.schema.messages import CoreChange, Jobs, JobStatus, Preview
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.completion import complete_jobs
from tf_malleable.cli.jobs.control import cores_now, settled
from tf_malleable.cli.jobs.job_arguments import group_option, live_of_group, to_each
from tf_malleable.cli.jobs.job_texts import title
from tf_malleable.cli.jobs.limit_windows import Times, check_window, set_window, window_options
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.model import OperationError
from tf_malleable.model.units import cores as cores_of
from tf_malleable.model.units import printable

_NEGATIVE = re.compile(r"-[0-9]+")
# Stands for the minus of -1, which click would take for an option.
_MINUS = "\N{MINUS SIGN}"
_CORES = re.compile(rf"(?P<sign>[+{_MINUS}]?)(?P<number>[0-9]+)", re.ASCII)


class CommandWithMinus(click.Command):
    """A command one of whose arguments can be a negative number."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, of which a number with a minus is no option."""
        valued = {name for each in self.params if not _is_flag(each) for name in each.opts}
        before = ["", *args[:-1]]
        return super().parse_args(
            ctx,
            [
                _MINUS + word[1:] if _NEGATIVE.fullmatch(word) and last not in valued else word
                for last, word in zip(before, args, strict=True)
            ],
        )


def _is_flag(parameter: click.Parameter) -> bool:
    return isinstance(parameter, click.Option) and parameter.is_flag


@click.command("set", cls=CommandWithMinus)
@click.argument("job", required=False, shell_complete=complete_jobs)
@click.argument("cores", required=False)
@click.option("--priority", type=int, metavar="N", help="Priority; jobs with higher ones go first.")
@click.option("--max", type=int, metavar="N", help="Maximum number of cores.")
@click.option(
    "--slo", metavar="OBJECTIVE", help="Objective of a service, such as p99=50ms; none for none."
)
@window_options
@click.option("--dry-run", is_flag=True, help="Only show which jobs would lose or get cores.")
@group_option
@json_option
@socket_option
def set_cores(
    client: Client,
    job: str | None,
    cores: str | None,
    times: Times | None,
    dry_run: bool,
    group: str | None,
    as_json: bool,
    **asked: int | str | None,
) -> None:
    """Set the number of CORES of a JOB by hand, its priority, its most cores, or its objective.

    JOB is an id, or a name that only one job has. CORES is a number; a difference such as +1
    or -1; max for as many as the job and the machine allow; or auto to let the policy decide
    again. Before it takes cores from other jobs, it says from which. With --group instead of JOB,
    each live job of the group is changed.

    With --between, this holds while the local time of the controller's host is in that part of
    the day; CORES is then a number. Outside of it, the limits are those that were set without. A
    job can have several such time windows; where they overlap, the last one given counts.
    """
    if group is not None:
        if cores is not None:
            raise click.UsageError("JOB and --group exclude each other: give one of them")
        if dry_run:
            raise click.UsageError("--dry-run is for one JOB")
        job, cores = None, job
    elif job is None:
        raise click.UsageError("no job is named: give a JOB or --group")
    request = {name: value for name, value in asked.items() if value is not None}
    _check_request(cores, request, times, dry_run)
    live = client.jobs()
    if job is not None:
        chosen = [client.find(job, live)]
    else:
        assert group is not None
        chosen = live_of_group(client, group, live)
    latest: list[JobStatus] = []

    def one(each: JobStatus) -> None:
        wanted = _Wanted(cores, request, dry_run, as_json, times)
        latest.extend(_set_one(client, each, wanted, live))

    to_each(chosen, one)
    if as_json and not dry_run:
        print_json(latest[0] if job is not None else Jobs(latest))
    elif not chosen:
        click.echo(f"no job of group {group} is live")


def _check_request(
    cores: str | None, request: Mapping[str, int | str], times: Times | None, dry_run: bool
) -> None:
    """Raise an error if a command line asks for nothing, or for what contradicts itself."""
    if times is not None and "slo" in request:
        raise click.UsageError("an objective holds at all times: give --slo without --between")
    check_window(times, cores, len(request) + (cores is not None))
    if cores is None and not request and times is None:
        raise click.UsageError("nothing to set: give CORES, --priority, --max or --slo")
    if dry_run and (cores is None or request or times):
        raise click.UsageError("--dry-run is for CORES alone")
    if cores is not None:
        _check_cores(cores)


@dataclass(frozen=True)
class _Wanted:
    """What a command line asks for.

    Attributes:
        cores: Value of CORES; None for none.
        request: Other values to set, by name.
        dry_run: Whether only to show what would change.
        as_json: Whether to print nothing for people.
        times: Part of the day in which it holds; None for always.
    """

    cores: str | None
    request: Mapping[str, int | str]
    dry_run: bool
    as_json: bool
    times: Times | None


def _set_one(
    client: Client, before: JobStatus, asked: _Wanted, live: Sequence[JobStatus]
) -> list[JobStatus]:
    """Change a job and say how; return its state, which is none if nothing was changed."""
    cores, request, as_json = asked.cores, asked.request, asked.as_json
    if asked.times is not None:
        limits = request if cores is None else {**request, "cores": int(cores)}
        after, said_so = set_window(client, before, asked.times, limits)
        return _conclude(client, after, [said_so], as_json)
    wanted = None if cores is None else _wanted_cores(cores, before, client, live)
    path = f"/v1/jobs/{before.id}"
    said: list[str] = []
    if cores is not None:
        preview = client.get(f"{path}/preview?cores={wanted or 0}", Preview)
        if asked.dry_run:
            _show_preview(preview, before, as_json)
            return []
        taken = [each for each in _of_others(preview, before) if each.after < each.before]
        if taken and not as_json:
            click.echo(f"{title(before)}: takes {', '.join(_loss(each) for each in taken)}")
    after = before
    if request:
        after = client.ask("PATCH", path, JobStatus, dict(request))
        usual = after.usual_limits or after
        now: dict[str, int | str] = {
            "priority": usual.priority,
            "max": usual.max,
            "slo": after.slo or "none",
        }
        said += [_set_to(name, value, now[name]) for name, value in request.items()]
    if cores is not None:
        after = client.ask("PUT", f"{path}/cores", JobStatus, {"cores": wanted})
        said.append(_decided(wanted, before))
    if after.usual_limits is not None:
        said.append("outside of its time windows, of which one is open")
    return _conclude(client, after, said, as_json)


def _conclude(
    client: Client, after: JobStatus, said: Sequence[str], as_json: bool
) -> list[JobStatus]:
    """Say what was done, and how many cores the job has then; return its state."""
    latest = settled(client, after)
    if not as_json:
        click.echo(f"{title(after)}: {', '.join(said)}; {cores_now(latest)}")
    return [latest or after]


def _set_to(name: str, wanted: int | str, now: int | str) -> str:
    lower = "" if now == wanted or name == "slo" else f", not {wanted}: there are no more here"
    return f"{name} set to {now}{lower}"


def _decided(wanted: int | None, before: JobStatus) -> str:
    """Return a phrase that says how a job's cores are decided from now on."""
    usual = before.usual_limits
    if wanted == (before.by_hand if usual is None else usual.cores):
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


def _check_cores(text: str) -> None:
    """Raise ValueError if this is no value of CORES."""
    found = _CORES.fullmatch(text)
    is_number = found is not None and 1 <= int(found["number"]) <= MOST_CORES
    if text not in ("auto", "max") and not is_number:
        raise ValueError(
            f"CORES must be auto, max, an integer from 1 to {MOST_CORES}, or a change such as +1"
            f" or -1, not {text.replace(_MINUS, '-')!r}"
        )


def _wanted_cores(
    text: str, job: JobStatus, client: Client, live: Sequence[JobStatus]
) -> int | None:
    """Return the number of cores that a valid value of CORES means for a job; None for auto.

    Raises:
        OperationError: The job would have no core.
    """
    if text == "auto":
        return None
    if text == "max":
        others = sum(each.by_hand or 0 for each in live if each.id != job.id)
        return max(1, min(job.max, len(client.info().cpus) - others))
    found = _CORES.fullmatch(text)
    assert found is not None
    number = int(found["number"])
    if not found["sign"]:
        return number
    now = len(job.granted) if job.by_hand is None else job.by_hand
    wanted = now + number if found["sign"] == "+" else now - number
    if wanted < 1:
        raise OperationError(
            f"{title(job)} has {cores_of(now)}, and cannot have less: tfm pause takes all away"
            if now == 1
            else f"{title(job)} has {cores_of(now)}, so {number} fewer would leave it none"
        )
    return wanted
