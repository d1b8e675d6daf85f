# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tidying of the state file: deletes old spans, returns free pages, repairs the next job id."""

from __future__ import annotations

import logging
from collections import Counter

from tf_malleable.controller.state.state_file import StateFile, Statement

FORGOTTEN = "spans_forgotten_until"
"""Setting with the end, as Unix time, of the last job whose spans were deleted."""

# Limits of one step, so that it does not block the controller's loop.
_JOBS_AT_ONCE = 20
_PAGES_AT_ONCE = 200

_log = logging.getLogger(__name__)


def outlived(file: StateFile, after: float, before: float) -> tuple[float, list[Statement]]:
    """Return the next step in deleting the spans of jobs that ended long ago.

    Args:
        file: The state file.
        after: Unix time; spans of jobs that ended then or before are already deleted.
        before: Unix time; spans of jobs that ended earlier are to be deleted.

    Returns:
        New value of `after` once this step is done, and the statements that delete the spans;
        there are none if nothing is left to delete.

    Raises:
        StoreError: The file cannot be read.
    """
    ends = file.rows(
        "SELECT ended FROM jobs WHERE ended > ? AND ended < ? ORDER BY ended LIMIT ?",
        (after, before, _JOBS_AT_ONCE),
    )
    if not ends:
        return after, []
    until = float(ends[-1][0])
    jobs = "(SELECT id FROM jobs WHERE ended > ? AND ended <= ?)"
    return until, [(f"DELETE FROM spans WHERE job IN {jobs}", [(after, until)])]


def spans_of_live(file: StateFile) -> Counter[str]:
    """Return the number of spans of each live job.

    Raises:
        StoreError: The file cannot be read.
    """
    query = "SELECT job, count(*) FROM spans WHERE job IN (SELECT id FROM live) GROUP BY job"
    return Counter(dict(file.rows(query)))


def oldest_spans(job: str, kept: int) -> Statement:
    """Return the statement that deletes all but the newest spans of a job."""
    newest = "(SELECT begin FROM spans WHERE job = ? ORDER BY begin DESC LIMIT 1 OFFSET ?)"
    return f"DELETE FROM spans WHERE job = ? AND begin <= {newest}", [(job, job, kept)]


def return_pages(file: StateFile) -> None:
    """Shorten the file by some of its free pages.

    Raises:
        StoreError: The file cannot be written.
    """
    file.shorten(_PAGES_AT_ONCE)


def forgotten_until(setting: str | None) -> float:
    """Return the value of the setting FORGOTTEN as a number."""
    try:
        return float(setting or 0.0)
    except ValueError:
        return 0.0


def next_number(file: StateFile) -> int:
    """Return the first job id that is not reserved yet; repair the table if necessary.

    Raises:
        StoreError: The file cannot be read or repaired.
    """
    rows = file.rows("SELECT next FROM numbers")
    number = rows[0][0] if len(rows) == 1 else None
    if isinstance(number, int):
        return number
    highest = file.rows(
        "SELECT max(CAST(id AS INTEGER)) FROM (SELECT id FROM live UNION ALL SELECT id FROM jobs"
        " UNION ALL SELECT job FROM spans)"
    )[0][0]
    number = 1 + int(highest or 0)
    _log.warning("%s: the next job id was lost, and is now %d", file.path, number)
    file.write([("DELETE FROM numbers", [()]), ("INSERT INTO numbers VALUES (?)", [(number,)])])
    return number
