# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Fields of traces: numbers, times, and tables of comma-separated values."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from tf_malleable.model.units import quoted
from tf_malleable.workload.lines import each_line

_TIME_LENGTH = len("2020-06-09 18:41:01")


def number(name: str, text: str) -> float:
    """Return a finite number.

    Raises:
        ValueError: The text is not a finite number.
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or "_" in text:
        raise ValueError(f"{name} must be a number, not {quoted(text)}")
    return value


def count(name: str, text: str, least: int) -> int:
    """Return an integer, which may be written as 2.0.

    Raises:
        ValueError: The text is not an integer, or it is less than `least`.
    """
    value = number(name, text)
    if value < least or not value.is_integer():
        raise ValueError(f"{name} must be an integer of at least {least}, not {quoted(text)}")
    return int(value)


def time(name: str, text: object) -> float:
    """Return a time such as 2020-06-09 18:41:01 in seconds since 1970, without a time zone.

    Raises:
        ValueError: The text is not such a time.
    """
    try:
        if isinstance(text, str) and len(text) == _TIME_LENGTH and text[10] == " ":
            return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        pass
    raise ValueError(f"{name} must be a time such as 2020-06-09 18:41:01, not {quoted(text)}")


def read_table(
    path: Path,
    columns: Sequence[str],
    parse: Callable[[Mapping[str, str]], None],
    *,
    optional: Sequence[str] = (),
    headless: bool = False,
) -> None:
    """Call `parse` with each line of a table of comma-separated values, by column.

    Args:
        path: The table.
        columns: Required columns, in their usual order.
        parse: Called with each line; raises ValueError if a value is invalid.
        optional: Optional columns.
        headless: Whether the header may be missing; the columns are then these, in their order.

    Raises:
        ValueError: The file cannot be read, or a line is invalid; the message says which.
    """
    header: list[str] = []

    def parse_line(line: str) -> None:
        fields = _split(line)
        if not fields:
            return
        if not header:
            is_header = not headless or not set(columns).isdisjoint(fields)
            header.extend(_checked(fields, columns, optional) if is_header else columns)
            if is_header:
                return
        if len(fields) != len(header):
            raise ValueError(
                f"a line must have {len(header)} fields ({', '.join(header)}), not {len(fields)}"
            )
        parse(dict(zip(header, fields, strict=True)))

    each_line(path, parse_line)


def _split(line: str) -> list[str]:
    if not line.strip():
        return []
    try:
        return [field.strip() for field in next(csv.reader([line], strict=True))]
    except csv.Error as error:
        raise ValueError(f"a line must have comma-separated values: {error}") from None


def _checked(header: list[str], columns: Sequence[str], optional: Sequence[str]) -> list[str]:
    """Return the header if it has all columns, and no others.

    Raises:
        ValueError: A column is missing or unknown; the message says what is allowed.
    """
    allowed = f"the columns must be {', '.join(columns)}"
    if optional:
        allowed += f", and may be {', '.join(optional)}"
    for column in header:
        if column not in columns and column not in optional:
            raise ValueError(f"column {quoted(column)} is unknown; {allowed}")
        if header.count(column) > 1:
            raise ValueError(f"column {column} is there twice; {allowed}")
    for column in columns:
        if column not in header:
            raise ValueError(f"column {column} is missing; {allowed}")
    return header
