# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Batches: jobs of one tfm submit, one for each line of a file or for each script.

All jobs are checked before the first one is submitted. If the controller refuses one all the same,
those before it are cancelled: all are submitted, or none.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NoReturn

import click
from click.core import ParameterSource

from tf_malleable.api.schema.job_names import default_name
from tf_malleable.api.schema.job_request import MOST_INDICES
from tf_malleable.api.schema.messages import JobStatus
from tf_malleable.api.transport.client import Client
from tf_malleable.cli.background.submission import submit_in_child
from tf_malleable.cli.launch.program import is_program, with_python
from tf_malleable.cli.launch.run_options import OPTIONS, RunOptions
from tf_malleable.cli.launch.start import check, ensure_controller, job_request, start
from tf_malleable.model import OperationError

# As many as an array may have: each is a waiting process.
_MOST_JOBS: Final = MOST_INDICES
# Parameters of tfm submit that are about the whole command line.
_OF_ALL: Final = ("file", "each", "resume", "socket", "id_file")
_REPEATED: Final = frozenset(each.variable for each in OPTIONS if each.multiple)


@dataclass(frozen=True)
class Entry:
    """A job of a batch.

    Attributes:
        place: What the user calls it, such as "line 3 of jobs.txt".
        options: Its options.
    """

    place: str
    options: RunOptions


def of_lines(command: click.Command, file: str, shared: Mapping[str, Any]) -> list[Entry]:
    """Return the jobs of a file, each a line of options, if any, ``--`` and a command.

    Args:
        command: The command, which knows the options.
        file: Path of the file; "-" for stdin.
        shared: Options of all jobs, by parameter.

    Raises:
        ValueError: The file cannot be read, or a line is invalid.
    """
    name = "stdin" if file == "-" else file
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text()
    except OSError as error:
        raise ValueError(f"--file: cannot read {name}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise ValueError(f"--file: {name} is not a text file") from None
    entries = []
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        place = f"line {number} of {name}"
        try:
            values = {**shared, **_parsed(command, shlex.split(line), shared)}
        except click.ClickException as error:
            raise ValueError(f"{place}: {error.format_message()}") from None
        except ValueError as error:
            raise ValueError(f"{place}: {error}") from None
        entries.append(Entry(place, _options(values)))
    if not entries:
        raise ValueError(f"--file: {name} has no command")
    return entries


def of_scripts(scripts: Sequence[str], shared: Mapping[str, Any]) -> list[Entry]:
    """Return a job for each script or program, without arguments."""
    return [Entry(each, _options({**shared, "command": (each,)})) for each in scripts]


def submit_all(entries: Sequence[Entry]) -> list[str]:
    """Submit all jobs, and return their ids; submit none if that fails for one.

    Raises:
        ValueError, OperationError: A job is invalid, or refused. None is left.
    """
    if len(entries) > _MOST_JOBS:
        raise ValueError(f"at most {_MOST_JOBS} jobs can be submitted at once, not {len(entries)}")
    if entries[0].options.id_file is not None:
        raise ValueError("--id-file is for one job, and these are several")
    entries = [replace(each, options=_executable(each)) for each in entries]
    ensure_controller(entries[0].options)
    client = Client(Path(entries[0].options.socket))
    cpus = len(client.info().cpus)
    names: set[str] = set()
    for each in entries:
        _check(each, cpus, names)
        names.add(each.options.name or default_name(each.options.command))
    ids: list[str] = []
    try:
        for each in entries:
            code, found = submit_in_child(lambda each=each: _become(each))  # type: ignore[misc]
            ids += found
            if code:
                raise OperationError(
                    f"{each.place} is not submitted, and so none is: those before it are cancelled"
                )
    except BaseException:  # Ctrl-C, too.
        for job in ids:
            with suppress(OperationError):
                client.ask("POST", f"/v1/jobs/{job}/cancel", JobStatus)
        raise
    return ids


def _become(entry: Entry) -> NoReturn:
    start(entry.options)


def _parsed(command: click.Command, words: list[str], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a line sets.

    Raises:
        ValueError, click.ClickException: The line is invalid.
    """
    if not words[0].startswith("-"):
        return {"command": tuple(words)}
    if "--" not in words[:-1]:
        raise ValueError("a line that begins with options has -- and a command after them")
    try:
        context = command.make_context("submit", words)
    except click.exceptions.Exit:
        raise ValueError("a line has options of a job and a command, and no --help") from None
    values = {
        name: value
        for name, value in context.params.items()
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE
    }
    if unfit := [name for name in _OF_ALL if name in values]:
        raise ValueError(f"--{unfit[0].replace('_', '-')} is not for single lines")
    for name in _REPEATED & values.keys():
        values[name] = (*shared[name], *values[name])
    return values


def _options(values: Mapping[str, Any]) -> RunOptions:
    socket = os.path.abspath(values["socket"])
    return RunOptions(**{**values, "socket": socket, "given": frozenset()})


def _executable(entry: Entry) -> RunOptions:
    """Return the options with a program that exists.

    Raises:
        ValueError: There is none.
    """
    try:
        command = with_python(entry.options.command)
    except ValueError as error:
        raise ValueError(f"{entry.place}: {error}") from None
    if not is_program(command[0]):
        raise ValueError(f"{entry.place}: there is no program {command[0]!r}")
    return replace(entry.options, command=command)


def _check(entry: Entry, cpus: int, names: set[str]) -> None:
    """Check all of a job that is known before it is submitted.

    Args:
        entry: The job.
        cpus: Number of CPUs that the controller shares out.
        names: Names of the jobs before it, which it may start after.
    """
    options = entry.options
    known = replace(
        options,
        after=tuple(job for job in options.after if job not in names),
        after_ok=tuple(job for job in options.after_ok if job not in names),
    )
    try:
        check(options)
        request = job_request(known)
        if request.min > cpus:
            raise ValueError(
                f"min must be at most {cpus}, the number of CPUs shared out here, not {request.min}"
            )
    except ValueError as error:
        raise ValueError(f"{entry.place}: {error}") from None
    except OperationError as error:
        raise OperationError(f"{entry.place}: {error}") from None
