# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader of text files line by line, and of job lines: arrival and arguments of `tfm run`."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from tf_malleable.model.units import quoted
from tf_malleable.workload.options import gpus_option, job_options

_Job = TypeVar("_Job")

# Options of `tfm run` that a line cannot have: they are for the whole workload or single jobs.
_NOT_HERE: Final = (
    *("--threads", "--follow-cgroup", "--no-follow-cgroup", "--socket", "--id-file"),
    *("--require-controller", "--time-limit", "--expected", "--after", "--detach", "--notify"),
)
_OPTIONS: Final = (
    job_options,
    gpus_option,
    click.option("--name"),
    click.option("--queue/--no-queue", default=True),
    click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED),
)


# In characters.
_LONGEST: Final = 600


def each_line(path: Path, parse: Callable[[str], None], *, comment: str | None = None) -> None:
    """Call `parse` with each line of a text file in UTF-8, one after the other.

    Args:
        path: The file.
        parse: Called with each line; raises ValueError or click.UsageError if it is invalid.
        comment: Prefix of lines that are skipped, whatever their encoding is.

    Raises:
        ValueError: The file cannot be read, or a line is invalid; the message says which.
    """
    try:
        # Bytes that are not UTF-8 become surrogates, and need not be searched for in ASCII.
        with path.open(encoding="utf-8-sig", errors="surrogateescape") as file:
            for number, line in enumerate(file, 1):
                if comment is not None and line.lstrip().startswith(comment):
                    continue
                if not line.isascii():
                    line.encode()
                try:
                    parse(line)
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {shortened(str(error))}") from None
                except click.UsageError as error:
                    said = shortened(error.format_message())
                    raise ValueError(f"{path}, line {number}: {said}") from None
    except OSError as error:
        raise ValueError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeError:
        raise ValueError(f"{path} is not a text file") from None


def shortened(sentence: str) -> str:
    """Return a sentence that may quote a part of a file, without the middle if it is long."""
    if len(sentence) <= _LONGEST:
        return sentence
    return f"{sentence[: _LONGEST // 2]} … {sentence[-_LONGEST // 2 :]}"


def read_jobs(path: Path, parse: Callable[[float, list[str]], _Job]) -> list[_Job]:
    """Return the jobs of a file that has one in each line, in the order of the lines.

    Args:
        path: The file.
        parse: Returns the job that arrives at a time with the arguments of `tfm run`.

    Raises:
        ValueError: The file cannot be read, has an invalid line, or has no jobs.
    """
    jobs: list[_Job] = []

    def add(line: str) -> None:
        words = shlex.split(line, comments=True)
        if words:
            jobs.append(parse(_arrival(words[0]), words[1:]))

    each_line(path, add)
    if not jobs:
        raise ValueError(f"{path} has no jobs")
    return jobs


def _arrival(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"a line must begin with the job's arrival time in seconds, not {quoted(text)}"
        ) from None


def line_command(parse: Callable[..., Any]) -> click.Command:
    """Return the command that parses the arguments of `tfm run` in a line.

    Args:
        parse: Receives `asked`, `gpus`, `name`, `queue` and `command`, and its further options.
    """
    for option in reversed(_OPTIONS):
        parse = option(parse)
    settings = {"allow_interspersed_args": False, "help_option_names": []}
    return click.command(context_settings=settings)(parse)


def parsed(command: click.Command, words: list[str]) -> Any:  # noqa: ANN401 - as the command's
    """Return what a line_command() makes of a line's arguments.

    Raises:
        ValueError: An option is not allowed in a workload file, or a value is invalid.
        click.UsageError: The arguments are invalid.
    """
    try:
        with command.make_context("tfm run", words) as context:
            return command.invoke(context)
    except click.NoSuchOption as error:
        if error.option_name in _NOT_HERE:
            raise ValueError(f"{error.option_name} is not allowed in a workload file") from None
        raise
