# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Command-line options for the requests of a job, and their types."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from tf_malleable.api.schema.job_request import ASKED
from tf_malleable.model.units import parse_duration, parse_size
from tf_malleable.workload.job_options import GPUS, JOB_OPTIONS, CommandOption

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

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


_TYPES = {
    "int": int,
    "float": float,
    "text": str,
    "path": click.Path(),
    "size": Size(),
    "duration": Duration(),
}


def add_option(
    option: CommandOption,
    kind: click.ParamType[Any] | None = None,
    complete: Callable[..., list[CompletionItem]] | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the decorator that adds an option to a command.

    Args:
        option: The option.
        kind: Type of its value, for kinds that are not known here.
        complete: Returns what a shell offers for its value; None for what click offers.
    """
    name = f"--{option.name}"
    if option.kind == "flag":
        return click.option(name, is_flag=True, help=option.help)
    if option.kind == "switch":
        names = f"{name}/--no-{option.name}"
        return click.option(names, default=option.default, help=option.help)
    return click.option(
        name,
        type=kind or _TYPES[option.kind],
        metavar=option.metavar,
        multiple=option.multiple,
        default=option.default,
        help=option.help,
        shell_complete=complete,
    )


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them as one dictionary named `asked`."""

    @functools.wraps(command)
    def gathering(*args: Any, **parameters: Any) -> Any:  # noqa: ANN401 - as the command's
        asked = {name: parameters.pop(name) for name in ASKED}
        return command(*args, asked=asked, **parameters)

    decorated: Callable[..., Any] = gathering
    for option in reversed(JOB_OPTIONS):
        decorated = add_option(option)(decorated)
    return decorated


def gpus_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --gpus to a command, which gets it as `gpus`."""
    return add_option(GPUS)(command)
