# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Options for picture files, and writing of figures to them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from tf_malleable.figures.formats import is_picture
from tf_malleable.model import OperationError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_Command = TypeVar("_Command", bound=Callable[..., object])


def picture(context: click.Context, parameter: click.Parameter, value: Path | None) -> Path | None:
    """Check an option's value; a callback for click."""
    if value is not None and not is_picture(value):
        raise click.BadParameter(f"FILE must end in .png or .svg, not {value.name!r}")
    return value


def gantt_option(command: _Command) -> _Command:
    """Add the option --gantt to a command, which gets it as the Path `gantt`, or None."""
    return click.option(
        "--gantt",
        type=click.Path(dir_okay=False, path_type=Path),
        metavar="FILE",
        callback=picture,
        help="Draw which job had how many cores when, to a .svg or .png FILE.",
    )(command)


def require_matplotlib() -> None:
    """Raise OperationError without matplotlib. Call this before long work."""
    try:
        from tf_malleable.figures import style  # noqa: F401
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("matplotlib"):
            raise
        raise OperationError("drawing needs matplotlib: pip install matplotlib") from None


def write(figure: Figure, path: Path) -> None:
    """Write a figure to a file.

    Raises:
        OperationError: The file cannot be written.
    """
    from tf_malleable.figures import style

    try:
        style.write(figure, path)
    except OSError as error:
        raise OperationError(f"cannot write {path}: {error.strerror or error}") from None
