# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tables for people. Only subcommands that print one import this."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from tf_malleable.model.units import printable

# Wide enough that nothing is cut where no terminal shows it.
_NO_TERMINAL = 1000


def console() -> Console:
    """Return where tables are printed; in a pipe nothing is coloured and no line cut."""
    width = None if sys.stdout.isatty() else _NO_TERMINAL
    return Console(highlight=False, markup=False, emoji=False, width=width)


def table(columns: Sequence[str], rows: Iterable[Sequence[RenderableType]]) -> Table:
    """Return a table without lines.

    Args:
        columns: Their headers; one that starts with ``>`` has numbers under it. Where
            a terminal is narrow, numbers are the last to be cut.
        rows: What to show, column by column.
    """
    result = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        number = column.startswith(">")
        result.add_column(
            column.removeprefix(">"), justify="right" if number else "left", no_wrap=number
        )
    for row in rows:
        result.add_row(*(_one_line(cell) for cell in row))
    return result


def _one_line(cell: RenderableType) -> RenderableType:
    if isinstance(cell, str):
        return Text(printable(cell), no_wrap=True, overflow="ellipsis")
    return cell
