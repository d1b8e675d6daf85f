# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""History reader for a thread, which does not block the controller's loop for long.

Python runs one thread at a time, and does not interrupt a call into a C library. So rows are
decoded, encoded and freed a few at a time: a garbage collection would scan all rows that are
kept, and freeing them at the end would be a single call. Bad rows are left out, with a warning.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tf_malleable.api.schema.history import JobRecord, Span
from tf_malleable.controller.state.history_file import SPANS_OF
from tf_malleable.controller.state.rows import ENDED, SPANS, Table, decode, warn
from tf_malleable.controller.state.state_file import Value, errors, open_to_read
from tf_malleable.scheduling.records.metrics import Totals

# In order of arrival, as Store.history() returns them; SQLite sorts without blocking Python.
_NEWEST_JOBS = """
SELECT id, record FROM (
  SELECT id, record, ended FROM jobs WHERE ended > ? ORDER BY ended DESC LIMIT ?
)
ORDER BY CASE WHEN json_valid(record) THEN json_extract(record, '$.submitted') END, ended
"""
# Number of rows that are decoded together, in a fraction of a millisecond.
_AT_ONCE = 50
# Minimum size in bytes of a piece of the answer.
_PIECE = 1 << 16

_ENDED = msgspec.json.Decoder(list[JobRecord])
_SPANS = msgspec.json.Decoder(list[Span])

_T = TypeVar("_T")


def encoded_history(
    path: Path,
    limit: int,
    live: Collection[str],
    current: Sequence[Span] | None,
    cpus: int,
    shown: Callable[[JobRecord], JobRecord],
    since: float = 0.0,
) -> list[bytes]:
    """Return the history of the state file and spans of live jobs as JSON, in pieces.

    Args:
        path: Path of the state file.
        limit: Maximum number of jobs; those that ended last are returned.
        live: Ids of the live jobs.
        current: Current spans of the live jobs; None for a history without spans.
        cpus: Number of CPUs shared out.
        shown: Returns a record as the caller may see it.
        since: Unix time; jobs and spans that ended then or before are left out.

    Raises:
        StoreError: The file cannot be read.
    """
    with errors("read", path), closing(open_to_read(path)) as connection:
        totals, ids = Totals(), list(live)

        def jobs() -> Iterator[JobRecord]:
            for job in _good(connection, ENDED, _NEWEST_JOBS, (since, limit), _ENDED, path):
                totals.add(job)
                ids.append(job.id)
                yield shown(job)

        def spans() -> Iterator[Span]:
            if current is not None:
                wanted = msgspec.json.encode(ids).decode()
                for each in _good(connection, SPANS, SPANS_OF, (wanted,), _SPANS, path):
                    if each.end > since:
                        yield each
                yield from current

        def parts() -> Iterator[bytes]:
            yield b'{"jobs":'
            yield from _encoded(jobs())
            yield b',"spans":'
            yield from _encoded(spans())
            yield b',"summary":' + msgspec.json.encode(totals.summary(cpus)) + b"}"

        return list(_joined(parts()))


def _good(
    connection: sqlite3.Connection,
    table: Table,
    query: str,
    values: Sequence[Value],
    decoder: msgspec.json.Decoder[list[_T]],
    path: Path,
) -> Iterator[_T]:
    """Yield the object of each good row."""
    cursor = connection.execute(query, values)
    while rows := cursor.fetchmany(_AT_ONCE):
        objects, bad = decode(table, rows, decoder)
        warn(path, bad)
        for _, each in objects:
            yield each


def _encoded(messages: Iterable[Any]) -> Iterator[bytes]:
    """Yield a list of messages as JSON, in pieces."""
    rest = iter(messages)
    before = b"["
    while piece := list(islice(rest, _AT_ONCE)):
        yield before + msgspec.json.encode(piece)[1:-1]
        before = b","
    yield b"[]" if before == b"[" else b"]"


def _joined(parts: Iterable[bytes]) -> Iterator[bytes]:
    """Join parts to pieces that are large enough for a system call each."""
    piece = bytearray()
    for part in parts:
        piece += part
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)
