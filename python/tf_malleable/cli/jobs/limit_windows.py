# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Time windows of a job's limits: tfm set --between, and their description."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import click

from tf_malleable.api.schema.messages import JobStatus, ScheduledLimits, UsualLimits
from tf_malleable.api.transport.client import Client
from tf_malleable.model.schedules.time_window import parse_window
from tf_malleable.model.units import cores as cores_of

NONE: Final = "none"
"""Value of --between that forgets all windows."""


class Times(NamedTuple):
    """Values of --between, which may be NONE, and --days."""

    between: str
    days: str | None


def window_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --between and --days to a command, which gets them as `times`; None without them."""

    @functools.wraps(command)
    def gathering(*args: Any, **parameters: Any) -> Any:  # noqa: ANN401 - as the command's
        between, days = parameters.pop("between"), parameters.pop("days")
        if between is None and days is not None:
            raise click.UsageError("--days is for a time window: give --between, too")
        times = None if between is None else Times(between, days)
        return command(*args, times=times, **parameters)

    add_days = click.option(
        "--days", metavar="DAYS", help="Days on which it begins, such as mon-fri.  [default: all]"
    )
    add_between = click.option(
        "--between",
        metavar="TIMES",
        help="Only in this part of the day, such as 22:00-07:00; none forgets all of them.",
    )
    return add_between(add_days(gathering))


def check_window(times: Times | None, cores: str | None, limits: int) -> None:
    """Check the window of a command line.

    Args:
        times: The window; None for none.
        cores: Value of CORES; None for none.
        limits: Number of limits that are given.

    Raises:
        click.UsageError: The options contradict each other.
        ValueError: There is no such window.
    """
    if times is None:
        return
    between, days = times
    if between == NONE:
        if limits or days is not None:
            raise click.UsageError(
                "--between none forgets all time windows of the job: give nothing else with it"
            )
        return
    parse_window(between, days)
    if not limits:
        raise click.UsageError(
            "nothing to set in this time window: give CORES, --priority or --max"
        )
    if cores is not None and not cores.isdecimal():
        raise click.UsageError(f"CORES must be a number with --between, not {cores!r}")


def set_window(
    client: Client, job: JobStatus, times: Times, limits: Mapping[str, Any]
) -> tuple[JobStatus, str]:
    """Set a job's limits in a time window, or forget all windows.

    Args:
        client: The controller.
        job: The job.
        times: The window, which has been checked.
        limits: Limits by name.

    Returns:
        The job afterwards, and what was done, for people.
    """
    path = f"/v1/jobs/{job.id}/schedule"
    between, days = times
    if between == NONE:
        after = client.ask("DELETE", path, JobStatus)
        said = "its limits are the same at all times"
        return after, said if job.schedule else f"no change, {said} already"
    asked = {"between": between, "days": days, **limits}
    after = client.ask("POST", path, JobStatus, asked)
    return after, limits_text(after.schedule[-1])


def limits_text(limits: ScheduledLimits) -> str:
    """Return the limits in a time window: ``"1 core between 22:00 and 07:00 (mon-fri)"``."""
    window = parse_window(limits.between, limits.days)
    parts = [] if limits.cores is None else [cores_of(limits.cores)]
    parts += [] if limits.max is None else [f"at most {cores_of(limits.max)}"]
    parts += [] if limits.priority is None else [f"priority {limits.priority}"]
    return f"{', '.join(parts)} {window.phrase}"


def usual_text(usual: UsualLimits) -> str:
    """Return the limits outside of all time windows, for people."""
    cores = "cores by policy" if usual.cores is None else f"{cores_of(usual.cores)} by hand"
    return f"{cores}, at most {cores_of(usual.max)}, priority {usual.priority}"
