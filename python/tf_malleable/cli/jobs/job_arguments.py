# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Job arguments, and actions on several jobs."""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from tf_malleable.api.schema.job_names import array_base
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.completion import complete_groups, complete_jobs
from tf_malleable.cli.ended_jobs import ended_of_group, no_such_group
from tf_malleable.linux.processes.users import user_name
from tf_malleable.model import OperationError

# Parameters that a Selection is made of, in the order of its attributes.
_SELECTING = ("jobs", "everyone", "mine", "group")

_Command = TypeVar("_Command", bound=Callable[..., object])


def job_argument(command: _Command) -> _Command:
    """Add the argument JOB to a command, which gets it as `job`."""
    return click.argument("job", shell_complete=complete_jobs)(command)


@dataclass(frozen=True)
class Selection:
    """The jobs that a command line names.

    Attributes:
        jobs: Ids; names; names of arrays, for all of their jobs; or patterns of names with * and ?.
        everyone: Whether all live jobs are meant.
        mine: Whether all live jobs of the calling user are meant.
        group: Group of the calling user whose jobs are meant; None for none.
    """

    jobs: tuple[str, ...] = ()
    everyone: bool = False
    mine: bool = False
    group: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether the command line names no job in any way."""
        return not (self.jobs or self.everyone or self.mine or self.group is not None)


def jobs_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the arguments JOB, --group, --mine and --all; the command gets a Selection as `jobs`."""

    @functools.wraps(command)
    def gathering(*args: Any, **parameters: Any) -> Any:  # noqa: ANN401 - as the command's
        selection = Selection(*(parameters.pop(name) for name in _SELECTING))
        given = (selection.jobs, selection.everyone, selection.mine, selection.group is not None)
        if list(map(bool, given)).count(True) > 1:
            raise click.UsageError(
                "JOB, --group, --mine and --all exclude each other: give one of them"
            )
        return command(*args, jobs=selection, **parameters)

    decorated: Callable[..., Any] = gathering
    for add in (
        click.option("--all", "everyone", is_flag=True, help="All live jobs."),
        click.option("--mine", is_flag=True, help="All live jobs of yours."),
        group_option,
        click.argument("jobs", metavar="[JOB]...", nargs=-1, shell_complete=complete_jobs),
    ):
        decorated = add(decorated)
    return decorated


def group_option(command: _Command) -> _Command:
    """Add the option --group to a command, which gets it as `group`."""
    return click.option(
        "--group",
        metavar="NAME",
        help="Your jobs of this group.",
        shell_complete=complete_groups,
    )(command)


def of_group(client: Client, group: str, live: Sequence[JobStatus]) -> list[JobStatus]:
    """Return those of these jobs that are in a group of the calling user.

    Raises:
        OperationError: As of_caller().
    """
    return [job for job in of_caller(client, live) if job.group == group]


def live_of_group(client: Client, group: str, live: Sequence[JobStatus]) -> list[JobStatus]:
    """Return the live jobs of a group of the calling user.

    Raises:
        OperationError: The group never had a job, or as of_caller().
    """
    found = of_group(client, group, live)
    if not found and not ended_of_group(client, group):
        raise no_such_group(group)
    return found


def find_all(client: Client, selection: Selection) -> list[JobStatus]:
    """Return the selected live jobs, each once.

    Raises:
        OperationError: One of the jobs does not exist, or several jobs have the same name.
        click.UsageError: No job is named in any way.
    """
    if selection.is_empty:
        raise click.UsageError("no job is named: give a JOB, --group, --mine or --all")
    live = client.jobs()
    if selection.everyone:
        return live
    if selection.mine:
        return of_caller(client, live)
    if selection.group is not None:
        return live_of_group(client, selection.group, live)
    found = [job for each in selection.jobs for job in named(client, each, live)]
    return list({job.id: job for job in found}.values())


def of_caller(client: Client, jobs: Sequence[JobStatus]) -> list[JobStatus]:
    """Return those of these jobs that are the calling user's.

    Raises:
        OperationError: The controller is on another host, which has its own names of users.
    """
    if client.connect is not None:
        raise OperationError(
            f"which jobs at {client.socket} are yours is not known here: give a JOB or --all"
        )
    user = user_name(os.getuid())
    return [job for job in jobs if job.user == user]


def named(client: Client, text: str, live: Sequence[JobStatus]) -> list[JobStatus]:
    """Return the live jobs that a text stands for, as in Selection.jobs.

    Of an array or a pattern, these are only jobs that the calling user may change.

    Raises:
        OperationError: There is no such job, or several have this name.
    """
    if any(text in (job.id, job.name) for job in live):
        return [client.find(text, live)]
    if text == "all":
        raise OperationError("there is no job 'all'; use --all for all live jobs")
    may_change_all = os.getuid() == 0 or client.connect is not None
    own = live if may_change_all else of_caller(client, live)
    found = [job for job in own if array_base(job.name) == text]
    if not found and is_pattern(text):
        pattern = re.escape(text).replace(r"\*", ".*").replace(r"\?", ".")
        found = [job for job in own if re.fullmatch(pattern, job.name, re.DOTALL)]
        if not found:
            raise OperationError(f"no live job of yours has a name like {text!r}")
    return found or [client.find(text, live)]


def is_pattern(text: str) -> bool:
    """Return whether a text has wildcards: * for any characters, ? for one."""
    return "*" in text or "?" in text


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
