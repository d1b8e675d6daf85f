# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Schema of the state file: its tables in SQL, and the upgrades from earlier versions."""

from __future__ import annotations

from typing import Final

APPLICATION: Final = 0x74666D31
"""SQLite application id in the header of a state file."""

VERSION: Final = 4
"""Version of the tables and of their documents, as SQLite's user version."""

CREATE: Final = f"""
BEGIN IMMEDIATE;
CREATE TABLE live (id TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE jobs (id TEXT PRIMARY KEY, ended REAL NOT NULL, record TEXT NOT NULL) WITHOUT ROWID;
CREATE INDEX jobs_by_end ON jobs (ended);
CREATE TABLE spans (
  job TEXT, begin REAL, span TEXT NOT NULL, PRIMARY KEY (job, begin)
) WITHOUT ROWID;
CREATE TABLE speeds (name TEXT PRIMARY KEY, speeds TEXT NOT NULL);
CREATE TABLE settings (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE numbers (next INTEGER NOT NULL);
INSERT INTO numbers VALUES (1);
PRAGMA application_id = {APPLICATION};
PRAGMA user_version = 1;
COMMIT;
"""
"""Statements that turn an empty file into one of version 1."""

SET_ASIDE: Final = """
CREATE TABLE IF NOT EXISTS set_aside (source TEXT, key TEXT, document, reason TEXT)
"""
"""Table of rows that cannot be decoded, for inspection. Older controllers ignore it."""

MOST_SPANS: Final = 10_000
"""Maximum number of spans that a job is counted for; about as many are kept."""

SPAN_BYTES: Final = 200
"""Bytes that a span is counted for: about what one takes on a machine of 32 CPUs."""

STARTS: Final = """
CREATE TABLE IF NOT EXISTS starts (name TEXT PRIMARY KEY, start TEXT NOT NULL)
"""
"""Table of what is learned of the starts of programs. Older controllers ignore it."""

# A row that is no JSON counts for nobody; it must not keep the file from being opened.
USER_OF_JOB: Final = (
    "CASE WHEN json_valid(record)"
    " THEN ifnull(json_extract(record, '$.account'), json_extract(record, '$.user')) END"
)
"""SQL expression for the user that a job in the history is counted for."""

_GRANTS = "CASE WHEN json_valid(record) THEN ifnull(json_extract(record, '$.grants'), 0) ELSE 0 END"
BYTES_OF_JOB: Final = f"length(CAST(record AS BLOB)) + {SPAN_BYTES} * min({MOST_SPANS}, {_GRANTS})"
"""SQL expression for the size of a job in the history, with its spans."""

JOBS_BY_USER: Final = f"""
CREATE INDEX IF NOT EXISTS jobs_by_user ON jobs ({USER_OF_JOB}, ended, {BYTES_OF_JOB})
"""
"""Index with all that is counted of a user's history. Older controllers keep it up to date."""

_RUN_TIMES = """
BEGIN IMMEDIATE;
CREATE TABLE run_times (command TEXT PRIMARY KEY, run_time TEXT NOT NULL);
PRAGMA user_version = 2;
COMMIT;
"""
# The records of ended jobs have the fields that a replay needs. Records of earlier versions stay
# as they are, as the values are unknown. A new version, because a controller that did not write
# the fields would leave a gap in the history.
_REPLAYABLE = """
BEGIN IMMEDIATE;
PRAGMA user_version = 3;
COMMIT;
"""
# Records may have the energy of a job, and its area. Records without these stay as they are. A new
# version, because a controller that did not know the fields would drop them.
_METERED = """
BEGIN IMMEDIATE;
PRAGMA user_version = 4;
COMMIT;
"""
_UPGRADES = (_RUN_TIMES, _REPLAYABLE, _METERED)


def upgrades(version: int) -> tuple[str, ...]:
    """Return the scripts that upgrade a file from a version to VERSION, in order."""
    return _UPGRADES[max(0, version - 1) :]
