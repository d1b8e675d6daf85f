# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tables on the console. Imported only by subcommands that need it, because rich loads slowly."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from tf_malleable.model.units import printable

# Width in a pipe, so that nothing is cut.
_NO_TERMINAL = 1000


def console() -> Console:
    """Return the console for tables; in a pipe it neither colours nor cuts lines."""
    width = None if sys.stdout.isatty() else _NO_TERMINAL
    return Console(highlight=False, markup=False, emoji=False, width=width)


def table(columns: Sequence[str], rows: Iterable[Sequence[RenderableType]]) -> Table:
    """Return a table without borders.

    Args:
        columns: Headers; a leading ``>`` marks a column of numbers, which is right-aligned
            and cut last in a narrow terminal.
        rows: Cells of each row.
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
