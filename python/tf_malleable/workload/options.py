# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command-line options for the requests of a job, and their types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tf_malleable.api.schema.job_request import ASKED
from tf_malleable.model.units import parse_duration, parse_size

if TYPE_CHECKING:
    _Bytes = click.ParamType[int]
    _Seconds = click.ParamType[float]
else:  # Generic from click 8.4 on.
    _Bytes = _Seconds = click.ParamType


class Size(_Bytes):
    """An amount of memory, such as 4G; its value is in bytes."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the size in bytes."""
        if isinstance(value, int):
            return value
        try:
            return parse_size(str(value))
        except ValueError:
            self.fail(f"must be a size such as 512M or 4G, not {str(value)!r}", param, ctx)


class Duration(_Seconds):
    """A positive number with a unit, such as 90m; its value is in seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds."""
        if isinstance(value, float):
            return value
        try:
            return parse_duration(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


_OPTIONS = (
    click.option("--min", type=int, metavar="N", default=1, help="Minimum number of cores."),
    click.option(
        "--preferred", type=int, metavar="N", help="Preferred number of cores.  [default: max]"
    ),
    click.option("--max", type=int, metavar="N", help="Maximum number of cores.  [default: all]"),
    click.option(
        "--priority",
        type=int,
        metavar="N",
        default=0,
        help="Higher goes first; by default a point counts like arriving a minute earlier.",
    ),
    click.option(
        "--weight",
        type=float,
        metavar="X",
        default=1.0,
        help="Share relative to other jobs, in policies that use it.",
    ),
    click.option(
        "--mem",
        type=Size(),
        metavar="SIZE",
        help="Maximum memory, such as 512M or 4G; the job starts when that much is free.",
    ),
)


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them as one dictionary named `asked`."""

    @functools.wraps(command)
    def gathering(*args: Any, **parameters: Any) -> Any:  # noqa: ANN401 - as the command's
        asked = {name: parameters.pop(name) for name in ASKED}
        return command(*args, asked=asked, **parameters)

    decorated: Callable[..., Any] = gathering
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def gpus_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --gpus to a command, which gets it as `gpus`."""
    return click.option(
        "--gpus", type=int, metavar="N", default=0, help="Number of GPUs for this job alone."
    )(command)
