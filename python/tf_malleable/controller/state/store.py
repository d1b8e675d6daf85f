# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The controller's persistent state: live jobs, history, learned speeds, settings.

Data needed for decisions is kept in memory. Changes are queued and written in one
transaction per reaction of the controller. A full or failed disk costs only durability:
all calls keep working, and the queue is written as soon as that is possible again.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TypeVar

import msgspec

from tf_malleable.api.history import History, JobRecord, Span
from tf_malleable.controller.state.state_file import (
    StateFile,
    Statement,
    StoreError,
    Value,
    errors,
    open_to_read,
)
from tf_malleable.model import parse_cpuset
from tf_malleable.scheduling.learning import Knowledge, Learned, RunTime
from tf_malleable.scheduling.metrics import summary
from tf_malleable.scheduling.recently_set import RecentlySet
from tf_malleable.scheduling.record import Record

__all__ = ["CPUS", "Store", "StoreError", "default_state", "read_history"]

CPUS = "cpus"
"""Setting with the CPUs shared out, such as 0-3, for those who read the file later."""

_KEPT_JOBS = 100_000
_KEPT_NAMES = 10_000
_KEPT_COMMANDS = 10_000
# Ids are reserved in the file in advance, so that none is used twice after a crash.
_NUMBERS_AHEAD = 100
_QUEUED_SPANS = 100_000
# Per transaction, so that a long queue does not block the controller.
_SPANS_AT_ONCE = 1000

_NEWEST_JOBS = "SELECT record FROM jobs ORDER BY ended DESC LIMIT ?"
_SPANS_OF = """
SELECT span FROM spans WHERE job IN (SELECT value FROM json_each(?)) ORDER BY begin
"""

_T = TypeVar("_T")

_RECORDS = msgspec.json.Decoder(list[Record])
_ENDED = msgspec.json.Decoder(list[JobRecord])
_SPANS = msgspec.json.Decoder(list[Span])
_SPEEDS = msgspec.json.Decoder(list[tuple[Learned, ...]])
_RUN_TIMES = msgspec.json.Decoder(list[RunTime])


def default_state() -> Path:
    """Return the default path of the state file.

    It is in $XDG_STATE_HOME if that is set; otherwise in /var/lib for root, and in
    ~/.local/state for other users.
    """
    home = os.environ.get("XDG_STATE_HOME", "")
    if home.startswith("/"):  # The XDG specification declares relative paths invalid.
        directory = Path(home)
    elif os.geteuid() == 0:
        directory = Path("/var/lib")
    else:
        directory = Path.home() / ".local" / "state"
    return directory / "tf_malleable" / "controller.db"


class Store:
    """The controller's persistent state. For use by one thread.

    Only :meth:`history` and :meth:`flush` access the file, and no call waits for the disk.

    Args:
        path: The state file. The file and its directory are created if missing, private to
            their owner.
        keep: Maximum number of ended jobs in the history; older ones are deleted.

    Attributes:
        problem: Why the last write failed, in one sentence; None if it did not.
        knowledge: What was learned from earlier jobs, for the last 10,000 names and
            commands.

    Raises:
        StoreError: The file cannot be used: it is in use by another controller, not a
            state file, of a newer version or unreadable, or the disk is full.
    """

    def __init__(self, path: Path, *, keep: int = _KEPT_JOBS) -> None:
        self.problem: str | None = None
        self.knowledge = Knowledge()
        self._keep = keep
        self._file = StateFile(path)
        try:
            self._read()
            self._next = self._reserved
            self._write()
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> None:
        rows = self._file.rows
        records = self._decode("SELECT record FROM live", (), _RECORDS)
        self._live = {record.id: record for record in records}
        names = [row[0] for row in rows("SELECT name FROM speeds ORDER BY rowid")]
        speeds = self._decode("SELECT speeds FROM speeds ORDER BY rowid", (), _SPEEDS)
        known_speeds = RecentlySet(zip(names, speeds, strict=True), _KEPT_NAMES)
        commands = [row[0] for row in rows("SELECT command FROM run_times ORDER BY rowid")]
        times = self._decode("SELECT run_time FROM run_times ORDER BY rowid", (), _RUN_TIMES)
        known_times = RecentlySet(zip(commands, times, strict=True), _KEPT_COMMANDS)
        self.knowledge = Knowledge(known_speeds, known_times)
        self._settings = {row[0]: row[1] for row in rows("SELECT key, value FROM settings")}
        self._reserved = int(rows("SELECT next FROM numbers")[0][0])
        self._ended_count = int(rows("SELECT count(*) FROM jobs")[0][0])
        self._queued_live: dict[str, Record | None] = {}
        self._queued_ended: dict[str, JobRecord] = {}
        self._queued_spans: deque[Span] = deque(maxlen=_QUEUED_SPANS)
        self._queued_settings: dict[str, str] = {}

    @property
    def path(self) -> Path:
        """The state file."""
        return self._file.path

    def load(self) -> list[Record]:
        """Return the live jobs as last saved, in order of arrival."""
        return sorted(self._live.values(), key=_submission)

    def save(self, record: Record) -> None:
        """Save a live job's record."""
        if self._live.get(record.id) != record:
            self._live[record.id] = record
            self._queued_live[record.id] = record

    def forget(self, record_id: str) -> None:
        """Remove a live job."""
        self._live.pop(record_id, None)
        self._queued_live[record_id] = None

    def end(self, record_id: str, ended: JobRecord) -> None:
        """Move a job to the history."""
        self.forget(record_id)
        self._queued_ended[ended.id] = ended

    def add_span(self, span: Span) -> None:
        """Save a span of a job, unless it is empty."""
        if span.end > span.begin:
            self._queued_spans.append(span)

    def history(self, limit: int, *, spans: bool = True) -> tuple[list[JobRecord], list[Span]]:
        """Return the jobs that ended last, in order of arrival, and spans by begin.

        Args:
            limit: Maximum number of jobs, at least 1.
            spans: Whether to return spans, of these jobs and of all live ones.

        Raises:
            StoreError: The file cannot be read.
        """
        stored = self._decode(_NEWEST_JOBS, (limit,), _ENDED)
        known = {job.id: job for job in stored} | self._queued_ended
        newest = sorted(known.values(), key=lambda job: job.ended)[-limit:]
        jobs = sorted(newest, key=_arrival)
        if not spans:
            return jobs, []
        wanted = {job.id for job in jobs} | self._live.keys()
        stretches = self._decode(_SPANS_OF, (_encode(list(wanted)),), _SPANS)
        stretches += [span for span in self._queued_spans if span.job in wanted]
        return jobs, sorted(stretches, key=lambda span: span.begin)

    def next_id(self) -> str:
        """Return a job id that is unique for this file.

        Ids count up from "1" and are reserved in the file 100 in advance. So a crash may
        skip up to 100, and while the file cannot be written at most 100 are left.

        Raises:
            StoreError: No id is left.
        """
        if self._next >= self._reserved:
            self.flush()
        if self._next >= self._reserved:
            raise StoreError(f"cannot reserve more job ids: {self.problem}")
        self._next += 1
        return str(self._next - 1)

    def setting(self, key: str) -> str | None:
        """Return the value of a key; None if it was never set."""
        return self._settings.get(key)

    def set_setting(self, key: str, value: str) -> None:
        """Set the value of a key."""
        if self._settings.get(key) != value:
            self._settings[key] = self._queued_settings[key] = value

    def flush(self) -> None:
        """Write all changes in one transaction, without waiting for the disk.

        If that fails, `problem` says why, and everything stays queued: the newest state of
        each live job, every ended job, and the last 100,000 spans. Each call writes at most
        1000 spans.
        """
        if not self._is_dirty:
            return
        try:
            self._write()
        except StoreError as error:
            self.problem = str(error)
        else:
            self.problem = None

    def close(self) -> None:
        """Write the queue if possible, and close the file."""
        self.flush()
        while self._is_dirty and self.problem is None:
            self.flush()
        try:
            self._file.write([("UPDATE numbers SET next = ?", [(self._next,)])])
        except StoreError as error:
            self.problem = str(error)
        self._file.close()

    def _decode(
        self, query: str, values: Sequence[Value], decoder: msgspec.json.Decoder[list[_T]]
    ) -> list[_T]:
        return _decode((row[0] for row in self._file.rows(query, values)), decoder, self.path)

    @property
    def _is_dirty(self) -> bool:
        return bool(
            self._queued_live
            or self._queued_ended
            or self._queued_spans
            or self.knowledge.speeds.unwritten
            or self.knowledge.run_times.unwritten
            or self._queued_settings
            or self._next + _NUMBERS_AHEAD != self._reserved
        )

    def _write(self) -> None:
        spans = list(islice(self._queued_spans, _SPANS_AT_ONCE))
        surplus = max(0, self._ended_count + len(self._queued_ended) - self._keep)
        self._file.write(self._changes(spans, surplus))
        self._reserved = self._next + _NUMBERS_AHEAD
        self._ended_count += len(self._queued_ended) - surplus
        for _ in spans:
            self._queued_spans.popleft()
        self._queued_live.clear()
        self._queued_ended.clear()
        self.knowledge.speeds.unwritten.clear()
        self.knowledge.run_times.unwritten.clear()
        self._queued_settings.clear()

    def _changes(self, spans: Sequence[Span], surplus: int) -> list[Statement]:
        live, speeds = self._queued_live.items(), self.knowledge.speeds.unwritten.items()
        times = self.knowledge.run_times.unwritten.items()
        old = "(SELECT id FROM jobs ORDER BY ended LIMIT ?)"
        changes: list[Statement] = [
            ("UPDATE numbers SET next = ?", [(self._next + _NUMBERS_AHEAD,)]),
            ("DELETE FROM live WHERE id = ?", [(key,) for key, record in live if record is None]),
            (
                "REPLACE INTO live VALUES (?, ?)",
                [(key, _encode(record)) for key, record in live if record is not None],
            ),
            (
                "REPLACE INTO jobs VALUES (?, ?, ?)",
                [(job.id, job.ended, _encode(job)) for job in self._queued_ended.values()],
            ),
            (
                "REPLACE INTO spans VALUES (?, ?, ?)",
                [(span.job, span.begin, _encode(span)) for span in spans],
            ),
            ("DELETE FROM speeds WHERE name = ?", [(name,) for name, known in speeds if not known]),
            (
                "REPLACE INTO speeds VALUES (?, ?)",
                [(name, _encode(known)) for name, known in speeds if known],
            ),
            (
                "DELETE FROM run_times WHERE command = ?",
                [(key,) for key, known in times if not known],
            ),
            (
                "REPLACE INTO run_times VALUES (?, ?)",
                [(key, _encode(known)) for key, known in times if known],
            ),
            ("REPLACE INTO settings VALUES (?, ?)", list(self._queued_settings.items())),
        ]
        if surplus:
            changes.append((f"DELETE FROM spans WHERE job IN {old}", [(surplus,)]))
            changes.append((f"DELETE FROM jobs WHERE id IN {old}", [(surplus,)]))
        return changes


def read_history(path: Path, limit: int) -> tuple[History, int]:
    """Return a state file's history and its number of CPUs shared out, 0 if unknown.

    The file is not changed, and no controller is needed. Spans include those of jobs that
    were live at the last write.

    Args:
        path: The state file.
        limit: Maximum number of jobs, those that ended last.

    Raises:
        StoreError: It cannot be read, is not a state file, or has a newer version.
    """
    with errors("read", path), closing(open_to_read(path)) as connection:

        def column(query: str, *values: Value) -> list[str]:
            return [row[0] for row in connection.execute(query, values)]

        jobs = sorted(_decode(column(_NEWEST_JOBS, limit), _ENDED, path), key=_arrival)
        ids = [job.id for job in jobs] + column("SELECT id FROM live")
        spans = _decode(column(_SPANS_OF, _encode(ids)), _SPANS, path)
        cpus = column("SELECT value FROM settings WHERE key = ?", CPUS)
        number = len(parse_cpuset(cpus[0])) if cpus else 0
    return History(jobs, spans, summary(jobs, number)), number


def _submission(record: Record) -> tuple[float, int, str]:
    return record.submitted, len(record.id), record.id


def _arrival(job: JobRecord) -> tuple[float, float]:
    return job.submitted, job.ended


def _encode(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _decode(
    documents: Iterable[str], decoder: msgspec.json.Decoder[list[_T]], path: Path
) -> list[_T]:
    try:
        return decoder.decode(f"[{','.join(documents)}]")
    except msgspec.MsgspecError as error:
        raise StoreError(f"cannot read the state file {path}: {error}") from error
