# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Store: persistent state of the controller with live jobs, history, speeds and settings.

Data needed for decisions is kept in memory. Changes are queued and written in one
transaction per reaction of the controller. A full or failed disk costs only durability:
all calls keep working, and the queue is written as soon as that is possible again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from tf_malleable.api.schema.history import JobRecord, Outcome, Span
from tf_malleable.controller.state import retention
from tf_malleable.controller.state.history_file import (
    CPUS,
    ENDED_JOBS,
    ENDED_SPANS,
    NEWEST_JOBS,
    SPANS_OF,
    arrival,
    encode,
    read_history,
)
from tf_malleable.controller.state.history_shares import HistoryShares
from tf_malleable.controller.state.id_counter import IdCounter
from tf_malleable.controller.state.location import default_state
from tf_malleable.controller.state.rows import (
    ENDED,
    LIVE,
    RUN_TIMES,
    SPANS,
    SPEEDS,
    STARTS,
    BadRow,
    Table,
    decode,
    warn,
)
from tf_malleable.controller.state.schema import MOST_SPANS
from tf_malleable.controller.state.state_file import StateFile, Statement, StoreError, Value
from tf_malleable.scheduling.records.job_record import Record
from tf_malleable.scheduling.records.lessons import Knowledge, Learned, RunTime, Startup
from tf_malleable.scheduling.records.recently_set import RecentlySet

__all__ = ["CPUS", "Store", "StoreError", "default_state", "read_history"]

_KEPT_JOBS = 100_000
_KEPT_BYTES = 1 << 29
_KEPT_NAMES = 10_000
_KEPT_COMMANDS = 10_000
# Number of ids that are reserved in the file in advance, so that none is reused after a power
# failure, or after a time in which it could not be written.
_NUMBERS_AHEAD = 100
_QUEUED_SPANS = 100_000
# Spans written per transaction, so that a long queue does not block the controller.
_SPANS_AT_ONCE = 1000

_T = TypeVar("_T")

_RECORDS = msgspec.json.Decoder(list[Record])
_SPEEDS = msgspec.json.Decoder(list[tuple[Learned, ...]])
_RUN_TIMES = msgspec.json.Decoder(list[RunTime])
_STARTS = msgspec.json.Decoder(list[Startup])


class Store:
    """Persistent state of the controller. For use by one thread.

    Only :meth:`history`, :meth:`outcome`, :meth:`flush` and :meth:`tidy` access the file, and
    no call waits for the disk.

    Args:
        path: Path of the state file. The file and its directory are created if missing,
            private to their owner.
        keep: Maximum number of ended jobs in the history. The oldest jobs of the user who has
            most of it are deleted.
        keep_bytes: Maximum size of the history in bytes, approximately.
        keep_spans: Seconds after a job's end for which tidy() keeps its spans; None keeps
            them as long as the job.

    Attributes:
        problem: Reason why the last write failed, in one sentence; None if it succeeded.
        knowledge: Knowledge from earlier jobs, for the last 10,000 names and commands.

    Raises:
        StoreError: The file cannot be used: it is in use by another controller, not a
            state file, of a newer version or unreadable, or the disk is full.
    """

    def __init__(
        self,
        path: Path,
        *,
        keep: int = _KEPT_JOBS,
        keep_bytes: int = _KEPT_BYTES,
        keep_spans: float | None = None,
    ) -> None:
        self.problem: str | None = None
        self.knowledge = Knowledge()
        self._keep = keep, keep_bytes
        self._keep_spans = keep_spans
        self._file = StateFile(path)
        try:
            self._read()
            self._counter = IdCounter(self._file.path)
            self._next = self._counter.next(self._reserved, _NUMBERS_AHEAD)
            self._write()
            self._counter.note(self._next, self._reserved)
        except BaseException:
            self._file.close()
            raise

    def _read(self) -> None:
        rows = self._file.rows
        # A dictionary, because a bad row may be found again before it is moved.
        self._bad: dict[BadRow, None] = {}
        records = self._good(LIVE, LIVE.query(), (), _RECORDS)
        self._live = {record.id: record for _, record in records}
        speeds = self._good(SPEEDS, SPEEDS.query("ORDER BY rowid"), (), _SPEEDS)
        times = self._good(RUN_TIMES, RUN_TIMES.query("ORDER BY rowid"), (), _RUN_TIMES)
        starts = self._good(STARTS, STARTS.query("ORDER BY rowid"), (), _STARTS)
        self.knowledge = Knowledge(
            RecentlySet(speeds, _KEPT_NAMES),
            RecentlySet(times, _KEPT_COMMANDS),
            RecentlySet(starts, _KEPT_NAMES),
        )
        self._settings = {row[0]: row[1] for row in rows("SELECT key, value FROM settings")}
        self._reserved = retention.next_number(self._file)
        self._shares = HistoryShares(self._file, *self._keep)
        self._spans = retention.spans_of_live(self._file)
        self._queued_live: dict[str, Record | None] = {}
        self._queued_ended: dict[str, JobRecord] = {}
        self._queued_spans: deque[Span] = deque(maxlen=_QUEUED_SPANS)
        self._queued_settings: dict[str, str] = {}
        self._queued_statements: list[Statement] = []

    @property
    def path(self) -> Path:
        """Path of the state file."""
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
        self._spans.pop(record_id, None)
        self._queued_live[record_id] = None

    def end(self, record_id: str, ended: JobRecord) -> None:
        """Move a job to the history."""
        self.forget(record_id)
        self._queued_ended[ended.id] = ended

    def amend_ended(self, ended: JobRecord) -> None:
        """Replace the record of an ended job, of which more has become known."""
        if ended.id in self._queued_ended:
            self._queued_ended[ended.id] = ended
        else:
            change = "UPDATE jobs SET record = ? WHERE id = ?"
            self._queued_statements.append((change, [(encode(ended), ended.id)]))
            self.flush()  # For history() and outcome(), which read the file.

    def add_span(self, span: Span) -> None:
        """Save a span of a job, unless it is empty. Of a job, about the newest 10,000 are kept."""
        if span.end <= span.begin:
            return
        self._queued_spans.append(span)
        self._spans[span.job] += 1
        if self._spans[span.job] >= MOST_SPANS + _SPANS_AT_ONCE:
            self._spans[span.job] = MOST_SPANS
            self._queued_statements.append(retention.oldest_spans(span.job, MOST_SPANS))

    def outcome(self, job: str) -> Outcome | None:
        """Return the outcome of the ended job with this id; None if there is none.

        Raises:
            StoreError: The file cannot be read.
        """
        if (ended := self._queued_ended.get(job)) is not None:
            return ended.outcome
        found = self._good(ENDED, ENDED.query("WHERE id = ?"), (job,), ENDED_JOBS)
        return found[0][1].outcome if found else None

    def history(self, limit: int, *, spans: bool = True) -> tuple[list[JobRecord], list[Span]]:
        """Return the jobs that ended last, in order of arrival, and spans by begin.

        Args:
            limit: Maximum number of jobs, at least 1.
            spans: Whether to return spans, of the returned and of all live jobs.

        Raises:
            StoreError: The file cannot be read.
        """
        stored = self._good(ENDED, NEWEST_JOBS, (limit,), ENDED_JOBS)
        known = {job.id: job for _, job in stored} | self._queued_ended
        newest = sorted(known.values(), key=lambda job: job.ended)[-limit:]
        jobs = sorted(newest, key=arrival)
        if not spans:
            return jobs, []
        wanted = {job.id for job in jobs} | self._live.keys()
        found = self._good(SPANS, SPANS_OF, (encode(list(wanted)),), ENDED_SPANS)
        stretches = [span for _, span in found]
        stretches += [span for span in self._queued_spans if span.job in wanted]
        return jobs, sorted(stretches, key=lambda span: span.begin)

    def next_id(self) -> str:
        """Return a job id that is unique for this file.

        Ids count up from "1" and are reserved in the file 100 in advance. So a power failure may
        skip up to 100 ids, and while the file cannot be written at most 100 are left.

        Raises:
            StoreError: No id is left.
        """
        if self._next >= self._reserved:
            self.flush()
        if self._next >= self._reserved:
            raise StoreError(f"cannot reserve more job ids: {self.problem}")
        self._next += 1
        self._counter.note(self._next, self._reserved)
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
        1000 spans. While the disk is full, spans wait: what is reserved is for jobs.
        """
        if not self.is_dirty:
            return
        is_full = self._file.is_disk_full()
        try:
            if self._is_dirty_beside_spans or not is_full:
                self._write(0 if is_full else _SPANS_AT_ONCE)
        except StoreError as error:
            self.problem = str(error)
        else:
            self.problem = None
        if is_full and self.problem is None and self._queued_spans:
            self.problem = (
                f"the disk of the state file {self.path} is full: free some space there; until then"
                " jobs are saved, but not which cores they had when"
            )

    def close(self) -> None:
        """Write the queue if possible, and close the file."""
        self.flush()
        while self.is_dirty and self.problem is None:
            self.flush()
        try:
            self._file.write([("UPDATE numbers SET next = ?", [(self._next,)])])
        except StoreError as error:
            self.problem = str(error)
        else:
            self._counter.close()
        self._file.close()

    def tidy(self, now: float) -> bool:
        """Delete some spans that have outlived their retention, and shorten the file.

        Args:
            now: Unix time in seconds.

        Returns:
            Whether there is more to delete.
        """
        try:
            retention.return_pages(self._file)
            if self._keep_spans is None:
                return False
            after = retention.forgotten_until(self.setting(retention.FORGOTTEN))
            until, statements = retention.outlived(self._file, after, now - self._keep_spans)
        except StoreError:
            return False  # The next write will report the problem.
        self._queued_statements += statements
        if statements:
            self.set_setting(retention.FORGOTTEN, repr(until))
            self.flush()
        return bool(statements)

    def _good(
        self,
        table: Table,
        query: str,
        values: Sequence[Value],
        decoder: msgspec.json.Decoder[list[_T]],
    ) -> list[tuple[Any, _T]]:
        """Return the first key column and the object of each good row; queue the bad ones."""
        good, bad = decode(table, self._file.rows(query, values), decoder)
        new = [row for row in bad if row not in self._bad]
        warn(self.path, new)
        self._bad |= dict.fromkeys(new)
        return good

    @property
    def is_dirty(self) -> bool:
        """Whether there are changes that have not been written."""
        return bool(self._queued_spans) or self._is_dirty_beside_spans

    @property
    def _is_dirty_beside_spans(self) -> bool:
        return bool(
            self._queued_live
            or self._queued_ended
            or any(known.unwritten for _, known in self._learned)
            or self._queued_settings
            or self._queued_statements
            or self._bad
            or self._next + _NUMBERS_AHEAD != self._reserved
        )

    @property
    def _learned(self) -> Iterator[tuple[Table, RecentlySet[Any]]]:
        yield SPEEDS, self.knowledge.speeds
        yield RUN_TIMES, self.knowledge.run_times
        yield STARTS, self.knowledge.starts

    def _write(self, most_spans: int = _SPANS_AT_ONCE) -> None:
        spans = list(islice(self._queued_spans, most_spans))
        surplus = self._shares.surplus(self._queued_ended.values())
        self._file.write(self._changes(spans, surplus))
        self._reserved = self._next + _NUMBERS_AHEAD
        self._shares.written()
        for _ in spans:
            self._queued_spans.popleft()
        self._queued_live.clear()
        self._queued_ended.clear()
        for _, known in self._learned:
            known.unwritten.clear()
        self._queued_settings.clear()
        self._queued_statements.clear()
        self._bad.clear()

    def _changes(self, spans: Sequence[Span], surplus: Sequence[str]) -> list[Statement]:
        live = self._queued_live.items()
        return [
            # First, so that a row written now is not mistaken for a bad one.
            *(statement for bad in self._bad for statement in bad.moving()),
            *self._queued_statements,
            ("UPDATE numbers SET next = ?", [(self._next + _NUMBERS_AHEAD,)]),
            ("DELETE FROM live WHERE id = ?", [(key,) for key, record in live if record is None]),
            (
                "REPLACE INTO live VALUES (?, ?)",
                [(key, encode(record)) for key, record in live if record is not None],
            ),
            (
                "REPLACE INTO jobs VALUES (?, ?, ?)",
                [(job.id, job.ended, encode(job)) for job in self._queued_ended.values()],
            ),
            (
                "REPLACE INTO spans VALUES (?, ?, ?)",
                [(span.job, span.begin, encode(span)) for span in spans],
            ),
            *(change for table, known in self._learned for change in _kept(table, known.unwritten)),
            ("REPLACE INTO settings VALUES (?, ?)", list(self._queued_settings.items())),
            ("DELETE FROM spans WHERE job = ?", [(job,) for job in surplus]),
            ("DELETE FROM jobs WHERE id = ?", [(job,) for job in surplus]),
        ]


def _submission(record: Record) -> tuple[float, int, str]:
    return record.submitted, len(record.id), record.id


def _kept(table: Table, changes: Mapping[str, object]) -> list[Statement]:
    """Return the statements for changes by key; None stands for a dropped value."""
    (key,) = table.keys
    return [
        (
            f"DELETE FROM {table.name} WHERE {key} = ?",
            [(name,) for name, value in changes.items() if value is None],
        ),
        (
            f"REPLACE INTO {table.name} VALUES (?, ?)",
            [(name, encode(value)) for name, value in changes.items() if value is not None],
        ),
    ]
