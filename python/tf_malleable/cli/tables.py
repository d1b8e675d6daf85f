# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tables on the console. Imported only by subcommands that need it, because rich loads slowly."""

from __future__ import annotations

import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from tf_malleable.model.units import printable

# Columns that may be narrower than what is in them, before others are left out.
_LEAST = {"name": 16, "reason": 34}
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


@dataclass(frozen=True)
class JobTable:
    """A table of jobs that leaves out columns where there is no room for all.

    First go those in `spare`, then, from the right, all that are not kept. Names are cut in the
    middle, so that the beginning and the end, such as an index, can still be read.

    Attributes:
        columns: Headers, as of table(); "reason" is cut at its end.
        rows: Cells of each row.
        kept: Headers, as in `columns`, of the columns that are always shown.
        spare: Headers, as in `columns`, of the columns that are left out first, in this order.
        name: Header of the column with names.
        says_so: Whether a line below the table names the columns that are left out.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[RenderableType]]
    kept: Collection[str]
    spare: Sequence[str] = ()
    name: str = "name"
    says_so: bool = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Return what fits into the width of the console."""
        natural = [self._width(console, options, number) for number in range(len(self.columns))]
        least = [
            min(width, _LEAST.get("name" if column == self.name else column, width))
            for column, width in zip(self.columns, natural, strict=True)
        ]
        shown = list(range(len(self.columns)))
        for number in self._order_of_leaving():
            if sum(least[each] + 1 for each in shown) - 1 <= options.max_width:
                break
            shown.remove(number)
        room = options.max_width - sum(least[each] + 1 for each in shown) + 1
        widths = dict(enumerate(least))
        for number in shown:
            more = max(0, min(room, natural[number] - widths[number]))
            widths[number] += more
            room -= more
        yield table(
            [self.columns[number] for number in shown],
            ([self._cut(row[each], each, widths[each]) for each in shown] for row in self.rows),
        )
        missing = [
            column.removeprefix(">")
            for number, column in enumerate(self.columns)
            if number not in shown and column
        ]
        if missing and self.says_so:
            yield Text(f"no room for: {', '.join(missing)}", style="dim")

    def _order_of_leaving(self) -> list[int]:
        spare = [self.columns.index(each) for each in self.spare]
        others = [
            number
            for number, column in enumerate(self.columns)
            if column not in self.kept and column not in self.spare
        ]
        return spare + others[::-1]

    def _width(self, console: Console, options: ConsoleOptions, number: int) -> int:
        cells = (_one_line(row[number]) for row in self.rows)
        widest = max((Measurement.get(console, options, cell).maximum for cell in cells), default=0)
        return max(widest, len(self.columns[number].removeprefix(">")))

    def _cut(self, cell: RenderableType, number: int, width: int) -> RenderableType:
        if not isinstance(cell, str):
            return cell
        if self.columns[number] == self.name:
            return cut_in_middle(printable(cell), width)
        return cell if len(cell) <= width else f"{cell[: max(0, width - 1)]}…"


def cut_in_middle(text: str, most: int) -> str:
    """Return the text with at most this many characters, without some of its middle."""
    if len(text) <= most:
        return text
    end = max(0, most - 1) // 2
    return f"{text[: max(0, most - 1 - end)]}…{text[len(text) - end :]}"


def _one_line(cell: RenderableType) -> RenderableType:
    if isinstance(cell, str):
        return Text(printable(cell), no_wrap=True, overflow="ellipsis")
    return cell
