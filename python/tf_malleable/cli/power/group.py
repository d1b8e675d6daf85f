# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command group tfm power: power of this host by consumer, and its budget."""

from __future__ import annotations

import math
import time

import click

from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.schema.power import BudgetInForce, PowerStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.jobs.job_texts import per_step
from tf_malleable.cli.options import json_option, print_json, socket_option
from tf_malleable.cli.power.calibrate import calibrate
from tf_malleable.cli.power.organise import acl, organise
from tf_malleable.cli.tables import console, table
from tf_malleable.model import OperationError
from tf_malleable.model.power import MOST_WATTS
from tf_malleable.model.units import duration, energy, number
from tf_malleable.workload.options import Duration

_COLUMNS = (">id", "name", "area", ">watts", ">energy", ">per step", "source")


@click.group(invoke_without_command=True)
@json_option
@socket_option
@click.pass_context
def power(context: click.Context, client: Client, as_json: bool) -> None:
    """Show the power of this host and its jobs, and the budget in force.

    Every value is measured by a meter, estimated by this host's curve, or replayed from a
    recording, and says which. The host's idle power is a line of its own; the
    rest is attributed by CPU time.
    """
    if context.invoked_subcommand is not None:
        return
    found = client.get("/v1/power", PowerStatus)
    if as_json:
        print_json(found)
    else:
        _show(found, client.jobs())


power.add_command(calibrate)
power.add_command(organise)
power.add_command(acl)


@power.command()
@click.option("--every", type=Duration(), metavar="TIME", default="2s", help="[default: 2s]")
@socket_option
def watch(client: Client, every: float) -> None:
    """Show the power of this host until Ctrl-C."""
    while True:
        found, jobs = client.get("/v1/power", PowerStatus), client.jobs()
        click.clear()
        _show(found, jobs)
        time.sleep(max(1.0, every))


@power.command()
@click.argument("area")
@click.argument("watts", metavar="WATTS|none")
@click.option("--peak", is_flag=True, help="Limit the peak: jobs get fewer cores.  [default]")
@click.option(
    "--mean",
    type=Duration(),
    metavar="WINDOW",
    help="Draw no more on average over any time of this length, such as 5m: all jobs are paused"
    " together for a while.",
)
@click.option(
    "--until",
    type=Duration(),
    metavar="TIME",
    help="Time for which the budget is in force, such as 8h.  [default: always]",
)
@socket_option
def budget(
    client: Client, area: str, watts: str, peak: bool, mean: float | None, until: float | None
) -> None:
    """Let this host, if it is in AREA, or else AREA's jobs draw at most WATTS.

    The power of jobs is the host's power beyond idle, attributed by CPU time. A budget of none
    withdraws the budget.

    For example: tfm power budget faculty/room-12 300 --mean 5m --until 8h
    """
    if peak and mean is not None:
        raise click.UsageError("--peak and --mean exclude each other: give only one of them")
    body = {
        "area": area,
        "watts": None if watts == "none" else _watts(watts),
        "window": mean,
        "until": None if until is None else time.time() + until,
    }
    said = {key: value for key, value in body.items() if key == "watts" or value is not None}
    found = client.ask("PUT", "/v1/power/budget", PowerStatus, said)
    kept = {each.area: each.budget for each in found.areas} | {found.area: found.budget}
    click.echo(_budget(kept.get(area)))


def _watts(text: str) -> float:
    try:
        watts = float(text)
    except ValueError:
        watts = math.nan
    if not 0 < watts <= MOST_WATTS:
        raise ValueError(
            f"WATTS must be a number above 0, at most {MOST_WATTS:g}, or none, not {text!r}"
        )
    return watts


def _show(found: PowerStatus, jobs: list[JobStatus]) -> None:
    if not found.area:
        raise OperationError(found.problem or "no power is metered")
    output = console()
    by = "" if found.source is None else f" ({found.source}{_by(found)})"
    output.print(f"area {found.area}: {number(found.watts)} W{by}")
    if found.watts is not None:
        output.print(
            f"idle {number(found.idle_watts)} W, other processes {number(found.other_watts)} W"
        )
    output.print(_budget(found.budget))
    if found.problem:
        output.print(f"note: {found.problem}")
    for each in found.areas:
        total = sum(each.joules.values())
        output.print(f"area {each.area}: {each.watts:.1f} W, {energy(total)} so far")
        if each.budget is not None:
            output.print(f"area {each.area}: {_budget(each.budget)}")
    if jobs:
        output.print(table(_COLUMNS, [_row(job, found.area) for job in jobs]))


def _by(found: PowerStatus) -> str:
    return f" by {found.meter}" if found.meter and found.source != "estimated" else ""


def _budget(kept: BudgetInForce | None) -> str:
    if kept is None:
        return "budget: none, and no limit"
    what = "at most" if kept.window is None else f"on average over {duration(kept.window)} at most"
    until = "" if kept.until is None else f" until {time.strftime('%F %T', _local(kept))}"
    return (
        f"budget: {what} {kept.watts:g} W{until}, by {kept.author};"
        f" jobs may have {kept.cores} cores now"
    )


def _local(kept: BudgetInForce) -> time.struct_time:
    return time.localtime(kept.until)


def _row(job: JobStatus, area: str) -> tuple[str, ...]:
    return (
        job.id,
        job.name,
        job.area or area,
        number(job.watts),
        energy(job.energy_joules),
        energy(per_step(job.energy_joules, job.steps_done)),
        job.energy_source or "-",
    )
