# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The options by which a command line says what a job asks for."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

_OPTIONS = (
    click.option(
        "--min", type=int, metavar="N", default=1, help="With fewer cores it does not run."
    ),
    click.option(
        "--preferred", type=int, metavar="N", help="The cores it asks for.  [default: max]"
    ),
    click.option("--max", type=int, metavar="N", help="More would not help.  [default: all]"),
    click.option(
        "--priority",
        type=int,
        metavar="N",
        default=0,
        help="Higher goes first, in policies that look at it.",
    ),
    click.option(
        "--weight",
        type=float,
        metavar="X",
        default=1.0,
        help="Its share against others, in policies that look at it.",
    ),
)
ASKED = ("min", "preferred", "max", "priority", "weight")
"""What they set, as fields of a JobRequest."""


def job_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options, which it gets as one dictionary named `asked`."""

    @functools.wraps(command)
    def gathering(*args: Any, **parameters: Any) -> Any:  # noqa: ANN401 - as the command's
        asked = {name: parameters.pop(name) for name in ASKED}
        return command(*args, asked=asked, **parameters)

    decorated: Callable[..., Any] = gathering
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated
