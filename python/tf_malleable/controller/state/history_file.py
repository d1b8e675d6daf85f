# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""History read from a state file, without a controller."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tf_malleable.api.schema.history import History, JobRecord, Span
from tf_malleable.controller.state.rows import ENDED, SPANS, Row, Table, decode, warn
from tf_malleable.controller.state.state_file import Value, errors, open_to_read
from tf_malleable.model import parse_cpuset
from tf_malleable.scheduling.records.metrics import summary

CPUS = "cpus"
"""Setting with the CPUs shared out, such as 0-3, for later readers of the file."""

NEWEST_JOBS = ENDED.query("ORDER BY ended DESC LIMIT ?")
SPANS_OF = SPANS.query("WHERE job IN (SELECT value FROM json_each(?)) ORDER BY begin")

ENDED_JOBS = msgspec.json.Decoder(list[JobRecord])
ENDED_SPANS = msgspec.json.Decoder(list[Span])

_T = TypeVar("_T")


def read_history(path: Path, limit: int) -> tuple[History, int]:
    """Return a state file's history, and the number of CPUs shared out, 0 if unknown.

    The file is not changed, and no controller is needed. Spans include those of jobs that
    were live at the last write. Bad rows are left out, with a warning.

    Args:
        path: Path of the state file.
        limit: Maximum number of jobs; those that ended last are returned.

    Raises:
        StoreError: The file cannot be read, is not a state file, or has a newer version.
    """
    with errors("read", path), closing(open_to_read(path)) as connection:

        def rows(query: str, *values: Value) -> list[Row]:
            return connection.execute(query, values).fetchall()

        def good(
            table: Table, found: list[Row], decoder: msgspec.json.Decoder[list[_T]]
        ) -> list[_T]:
            objects, bad = decode(table, found, decoder)
            warn(path, bad)
            return [each for _, each in objects]

        jobs = sorted(good(ENDED, rows(NEWEST_JOBS, limit), ENDED_JOBS), key=arrival)
        ids: list[Any] = [job.id for job in jobs] + [row[0] for row in rows("SELECT id FROM live")]
        spans = good(SPANS, rows(SPANS_OF, encode(ids)), ENDED_SPANS)
        cpus = rows("SELECT value FROM settings WHERE key = ?", CPUS)
        number = len(parse_cpuset(cpus[0][0])) if cpus else 0
    return History(jobs, spans, summary(jobs, number)), number


def arrival(job: JobRecord) -> tuple[float, float]:
    """Return the key that sorts ended jobs in order of arrival."""
    return job.submitted, job.ended


def encode(value: object) -> str:
    """Return a value as JSON."""
    return msgspec.json.encode(value).decode()
