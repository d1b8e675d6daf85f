# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""tfm logs: prints the output of jobs that run, or ran, in the background."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from tf_malleable.api.schema.history import JobRecord
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.address import NoAnswerError
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.background.outputs import is_kept
from tf_malleable.cli.completion import complete_known_jobs
from tf_malleable.cli.ended_jobs import (
    ended_of_group,
    find_ended,
    last_array,
    no_such_group,
    no_such_job,
)
from tf_malleable.cli.jobs.job_arguments import group_option, is_pattern, named, of_group
from tf_malleable.cli.jobs.job_texts import title
from tf_malleable.cli.options import socket_option
from tf_malleable.linux.output_file import open_output, start_of_last
from tf_malleable.model import OperationError
from tf_malleable.model.units import printable

_POLL_SECONDS = 0.2
_PIECE = 1 << 16


@dataclass
class _Output:
    """An open output file.

    Attributes:
        file: The file, at the place to read from.
        prefix: What each line is printed with; empty to print bytes as they come.
        rest: The beginning of a line whose end is not written yet.
    """

    file: BinaryIO
    prefix: bytes
    rest: bytes = b""

    def copy(self) -> bool:
        """Print what can be read now; return whether that is anything."""
        piece = self.file.read(_PIECE)
        if piece and self.prefix:
            *lines, self.rest = (self.rest + piece).split(b"\n")
            _write(b"".join(self.prefix + line + b"\n" for line in lines))
        elif piece:
            _write(piece)
        return bool(piece)

    def finish(self) -> None:
        """Print a last line that has no end."""
        if self.rest:
            _write(self.prefix + self.rest + b"\n")


@click.command()
@click.argument("jobs", metavar="[JOB]...", nargs=-1, shell_complete=complete_known_jobs)
@click.option("-f", "--follow", is_flag=True, help="Follow the output until the jobs end.")
@click.option(
    "-n", "--lines", type=click.IntRange(0), metavar="N", help="Only the last N lines of each job."
)
@click.option("--all", "everyone", is_flag=True, help="All live jobs whose output is known.")
@group_option
@socket_option
def logs(
    client: Client,
    jobs: tuple[str, ...],
    follow: bool,
    lines: int | None,
    everyone: bool,
    group: str | None,
) -> None:
    """Print the output of each JOB of tfm submit; of several, with names before the lines.

    JOB is an id; a name, where among ended jobs with the same name the last is meant; the name
    of an array; or a pattern such as 'fold*' for names of live jobs. With --group, these are the
    jobs of the group, live or ended.
    """
    if [bool(jobs), everyone, group is not None].count(True) != 1:
        raise click.UsageError("give either a JOB, --group or --all; tfm jobs lists the jobs")
    if client.connect is not None:
        which = f"job {jobs[0]}" if len(jobs) == 1 else "these jobs"
        raise OperationError(
            f"the output of {which} is at {client.socket}: use ssh and tfm logs there"
        )
    live = client.jobs()
    found: list[JobStatus | JobRecord]
    if everyone:
        found = [job for job in live if job.output is not None]
    elif group is not None:
        found = _of_group(client, group, live)
    else:
        found = [job for each in jobs for job in _named(client, each, live)]
    paths = {}
    for job in found:
        if job.output is None:
            raise OperationError(
                f"no output is known of {title(job)}: only that of your own jobs, started by"
                " tfm submit"
            )
        paths[Path(job.output)] = job
    is_over = _is_over_already
    if follow:
        live_ones = {
            path: job.user
            for path, job in paths.items()
            if isinstance(job, JobStatus) or is_kept(path, job.user)
        }
        is_over = _watching(client, live_ones) if live_ones else is_over
    with ExitStack() as stack:
        outputs = []
        for path, job in paths.items():
            file = stack.enter_context(open_output(path, job.user))
            if lines is not None:
                file.seek(start_of_last(file, lines))
            prefix = f"{job.id} {printable(job.name)}: " if len(paths) > 1 or not jobs else ""
            outputs.append(_Output(file, prefix.encode()))
        _print(outputs, is_over)


def _of_group(client: Client, group: str, live: Sequence[JobStatus]) -> list[JobStatus | JobRecord]:
    """Return the jobs of a group whose output is known; attempts of one have the same output.

    Raises:
        OperationError: The group never had a job.
    """
    found: list[JobStatus | JobRecord] = [
        *ended_of_group(client, group),
        *of_group(client, group, live),
    ]
    if not found:
        raise no_such_group(group)
    return [job for job in found if job.output is not None]


def _named(client: Client, text: str, live: Sequence[JobStatus]) -> Sequence[JobStatus | JobRecord]:
    """Return the jobs, live or ended, that an argument stands for.

    Raises:
        OperationError: There is no such job, or several live ones have this name.
    """
    if any(text in (each.id, each.name) for each in live):
        return [client.find(text, live)]
    if ended := find_ended(client, text):
        return [ended]
    if members := last_array(client, text, live):
        known = {each.id: each for each in live}
        both = [known.get(each) or find_ended(client, each) for each in members]
        return [each for each in both if each is not None]
    if is_pattern(text):
        return named(client, text, live)
    raise no_such_job(text, several=True)


def _is_over_already() -> bool:
    return True


def _watching(client: Client, outputs: dict[Path, str]) -> Callable[[], bool]:
    """Return a function that polls once, after a pause, whether these jobs are all over.

    Args:
        client: Client of the controller.
        outputs: Users of the jobs, by output file.
    """

    def is_over() -> bool:
        time.sleep(_POLL_SECONDS)
        try:
            live = {each.output for each in client.jobs()}
        except NoAnswerError:
            return False  # The next controller takes over the jobs.
        return not any(
            str(output) in live or is_kept(output, user) for output, user in outputs.items()
        )

    return is_over


def _print(outputs: Sequence[_Output], is_over: Callable[[], bool]) -> None:
    """Print the contents of files, and what is appended until `is_over` returns True."""
    is_last = False
    while True:
        printed = [each.copy() for each in outputs]
        if any(printed):
            continue
        if is_last:
            break
        # Read once more: the last output may have been written just before the end.
        is_last = is_over()
    for each in outputs:
        each.finish()


def _write(data: bytes) -> None:
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
