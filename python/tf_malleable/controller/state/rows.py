# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Decoding of the state file's rows. A bad row is set aside; the rest of the file stays usable."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tf_malleable.controller.state.state_file import Statement

_T = TypeVar("_T")
Row = Sequence[Any]
"""Columns of a table's key, then the document."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Table:
    """A table of JSON documents.

    Attributes:
        name: Name of the table.
        keys: Columns of the primary key.
        document: Column with the JSON documents.
    """

    name: str
    keys: tuple[str, ...]
    document: str

    def query(self, rest: str = "") -> str:
        """Return a query for rows; `rest` follows the name of the table."""
        return f"SELECT {', '.join(self.keys)}, {self.document} FROM {self.name} {rest}"


LIVE = Table("live", ("id",), "record")
ENDED = Table("jobs", ("id",), "record")
SPANS = Table("spans", ("job", "begin"), "span")
SPEEDS = Table("speeds", ("name",), "speeds")
RUN_TIMES = Table("run_times", ("command",), "run_time")
STARTS = Table("starts", ("name",), "start")


@dataclass(frozen=True)
class BadRow:
    """A row that cannot be decoded.

    Attributes:
        table: Table of the row.
        key: Values of the row's primary key.
        reason: Decoding error.
    """

    table: Table
    key: tuple[Any, ...]
    reason: str

    def moving(self) -> list[Statement]:
        """Return the statements that move the row to the table `set_aside`."""
        table = self.table
        where = " AND ".join(f"{column} IS ?" for column in table.keys)
        key = " || ' ' || ".join(f"quote({column})" for column in table.keys)
        copy = (
            f"INSERT INTO set_aside SELECT '{table.name}', {key}, {table.document}, ?"
            f" FROM {table.name} WHERE {where}"
        )
        return [
            (copy, [(self.reason, *self.key)]),
            (f"DELETE FROM {table.name} WHERE {where}", [self.key]),
        ]


def decode(
    table: Table, rows: Sequence[Row], decoder: msgspec.json.Decoder[list[_T]]
) -> tuple[list[tuple[Any, _T]], list[BadRow]]:
    """Return the first key column and the object of each good row, and the bad rows."""
    objects = _decoded([row[-1] for row in rows], decoder)
    if isinstance(objects, list):
        return [(row[0], each) for row, each in zip(rows, objects, strict=True)], []
    good: list[tuple[Any, _T]] = []
    bad = []
    for row in rows:
        found = _decoded([row[-1]], decoder)
        if isinstance(found, list):
            good.append((row[0], found[0]))
        else:
            bad.append(BadRow(table, tuple(row[:-1]), found))
    return good, bad


def _decoded(documents: Sequence[Any], decoder: msgspec.json.Decoder[list[_T]]) -> list[_T] | str:
    """Return one object for each document, or the decoding error."""
    try:
        objects = decoder.decode(f"[{','.join(documents)}]")
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        return str(error)
    return objects if len(objects) == len(documents) else "not one JSON document"


def warn(path: Path, bad: Sequence[BadRow]) -> None:
    """Log each bad row, once."""
    for row in bad:
        _warn(path, " ".join(map(str, row.key)), row.table.name, row.reason)


@lru_cache(maxsize=1024)
def _warn(path: Path, key: str, table: str, reason: str) -> None:
    _log.warning("%s: the row %r of table %s is set aside: %s", path, key, table, reason)
