# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""State file of the controller, an SQLite database: opening, locking, writing, restoring.

Transactions go to SQLite's log without waiting for the disk. They survive a crash of the
controller at any instant, but a power failure may lose the last seconds (WAL, synchronous
NORMAL). Only the checkpoint, which copies the log into the file, waits for the disk; it
runs in a thread, because the controller's loop must never wait.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tf_malleable.controller.state.schema import (
    APPLICATION,
    CREATE,
    JOBS_BY_USER,
    SET_ASIDE,
    STARTS,
    VERSION,
    upgrades,
)
from tf_malleable.linux.trusted_folder import TrustedFolder

_ROWS_PER_CHECKPOINT = 1000
# While the disk is full, the log must fit into its reserve.
_ROWS_PER_CHECKPOINT_IF_FULL = 100
# Bytes of the log, and pages of the file, that are kept for the time when the disk is full.
_RESERVED_LOG = 4 << 20
_RESERVED_PAGES = 64
# Bytes that are free on a disk that passes for full.
_FULL = 1 << 20
# A file with at least this many pages, and this share of them free, is shortened when opened.
_SPARSE_PAGES = 1000
_SPARSE_SHARE = 0.25
_OPENING_SECONDS = 2.0

_ALIEN = "it is not a tf_malleable state file; choose another one with --state"

Value = str | float | None
Statement = tuple[str, Sequence[Sequence[Value]]]


class StoreError(Exception):
    """The state file cannot be used; the message is one sentence with path and reason."""


class StateFile:
    """A state file that only this process may write. For use by one thread.

    Raises:
        StoreError: The file cannot be opened, created or written, is not a state file, has a
            newer version, or is in use by another controller.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._checkpoint: threading.Thread | None = None
        self._is_open = False
        with errors("use", self.path):
            self._open()

    def rows(self, query: str, values: Sequence[Value] = ()) -> list[tuple[Any, ...]]:
        """Return the rows of a query.

        Raises:
            StoreError: The file cannot be read.
        """
        with errors("read", self.path):
            return self._connection.execute(query, values).fetchall()

    def write(self, changes: Iterable[Statement]) -> None:
        """Execute statements, each once per row, in one transaction.

        Raises:
            StoreError: The file cannot be written; nothing has changed.
        """
        with errors("write", self.path):
            self._restore_if_deleted()
            with _transaction(self._connection):
                for statement, rows in changes:
                    if rows:
                        self._connection.executemany(statement, rows)
        self._copy_log()

    def is_disk_full(self) -> bool:
        """Return whether hardly more fits on the disk than into what is reserved."""
        try:
            about = os.fstatvfs(self._descriptor)
        except OSError:
            return False
        # Many file systems keep some blocks for root.
        blocks = about.f_bfree if os.geteuid() == 0 else about.f_bavail
        return blocks * about.f_frsize < _FULL

    def shorten(self, pages: int) -> None:
        """Return at most this many free pages to the file system, but not the reserved ones.

        Raises:
            StoreError: The file cannot be written.
        """
        with errors("write", self.path):
            surplus = _free_pages(self._connection) - _RESERVED_PAGES
            if surplus <= 0:
                return
            # Each step of the statement returns one page; execute() would take only one step.
            self._connection.executescript(f"PRAGMA incremental_vacuum({min(pages, surplus)})")

    def close(self) -> None:
        """Copy the log into the file, and close and unlock it."""
        if not self._is_open:
            return
        self._is_open = False
        if self._checkpoint is not None:
            self._checkpoint.join()
        with suppress(sqlite3.Error):
            self._connection.close()
        # Last, as closing any descriptor of a file drops SQLite's own locks on it.
        os.close(self._descriptor)

    def _open(self) -> None:
        # From here on, nobody else can change what the path leads to, also to SQLite.
        with TrustedFolder(self.path.parent, 0o700) as folder:
            self._descriptor = _lock(folder, self.path)
        try:
            self._connection = _connect(self.path)
            _reserve_log(self.path)
            self._inodes = self._current_inodes()
            self._copied = self._connection.total_changes
        except BaseException:
            os.close(self._descriptor)
            raise
        self._is_open = True

    def _current_inodes(self) -> tuple[int | None, ...]:
        """Return the inodes at the paths of the file and its log; None if missing."""
        return tuple(_inode(f"{self.path}{suffix}") for suffix in ("", "-wal", "-shm"))

    def _restore_if_deleted(self) -> None:
        """Restore the file if it or its log was deleted.

        SQLite would not notice, and continue to write to the deleted files.
        """
        if not self._is_open:  # An earlier attempt to restore the file failed half-way.
            self._open()
        present = self._current_inodes()
        if present == self._inodes:
            return
        if present[0] not in (None, self._inodes[0]):
            raise StoreError(
                f"the state file {self.path} was replaced by another file while in use;"
                " restart the controller to use that one"
            )
        copy = self.path.with_name(f"{self.path.name}.restored")
        try:
            TrustedFolder(self.path.parent, 0o700).close()
            _copy(self._connection, copy)
            # Close first, because closing deletes the log by its name.
            self.close()
            copy.replace(self.path)
        finally:
            copy.unlink(missing_ok=True)
        self._open()

    def _copy_log(self) -> None:
        rows = self._connection.total_changes - self._copied
        if rows < _ROWS_PER_CHECKPOINT_IF_FULL:
            return
        if rows < _ROWS_PER_CHECKPOINT and not self.is_disk_full():
            return
        if self._checkpoint is not None and self._checkpoint.is_alive():
            return
        self._copied = self._connection.total_changes
        self._checkpoint = threading.Thread(
            target=_copy_log, args=(self.path,), name="tfm-checkpoint", daemon=True
        )
        self._checkpoint.start()


def open_to_read(path: Path) -> sqlite3.Connection:
    """Open a state file read-only, whether or not a controller uses it.

    Raises:
        OSError: The file cannot be accessed.
        sqlite3.Error: The file cannot be opened.
        StoreError: The file is not a state file, or has a newer version.
    """
    path = path.absolute()
    path.stat()  # SQLite does not say why it cannot open a file.
    # Without a log, no process has the file open, and SQLite must not create a log.
    mode = "mode=ro" if _inode(f"{path}-wal") else "mode=ro&immutable=1"
    connection = sqlite3.connect(f"{path.as_uri()}?{mode}", uri=True)
    connection.text_factory = _text
    try:
        _check(connection, path)
    except BaseException:
        connection.close()
        raise
    return connection


@contextmanager
def errors(verb: str, path: Path) -> Iterator[None]:
    """Turn errors in the context into a StoreError."""
    try:
        yield
    except OSError as error:
        raise StoreError(
            f"cannot {verb} the state file {path}: {error.strerror or error}"
        ) from error
    except (sqlite3.Error, ValueError) as error:
        raise StoreError(f"cannot {verb} the state file {path}: {_reason(error, path)}") from error


def _reason(error: Exception, path: Path) -> str:
    said = str(error)
    if not isinstance(error, sqlite3.DatabaseError):
        return said
    if "not a database" in said:
        return _ALIEN
    if "malformed" in said:
        return f"{said}; to begin without its jobs and history, move {path}* to another folder"
    if "full" in said:
        return f"{said}; free some space there, or choose another file with --state"
    return said


def _lock(folder: TrustedFolder, path: Path) -> int:
    """Open and lock a file for this controller alone; a new file is private to its owner."""
    try:
        descriptor = folder.open(path.name, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise StoreError(f"cannot use the state file {path}: it is a symbolic link") from None
        raise
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise StoreError(f"the state file {path} is in use by another controller") from None
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, timeout=_OPENING_SECONDS, isolation_level=None)
    connection.text_factory = _text
    try:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,):
            # Set before anything is written; later, it would take a VACUUM.
            connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.executescript(CREATE)
            _upgrade(connection, 1)
        if (version := _check(connection, path)) < VERSION:
            _copy_before_migration(connection, path, version)
            _upgrade(connection, version)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(SET_ASIDE)
        connection.execute(STARTS)
        connection.execute(JOBS_BY_USER)
        _vacuum_if_sparse(connection)
        _reserve_pages(connection)
        connection.execute("PRAGMA synchronous = NORMAL")
        # What is sorted need not fit on a disk that is full.
        connection.execute("PRAGMA temp_store = MEMORY")
        connection.execute("PRAGMA wal_autocheckpoint = 0")
        # Test write, to detect a full disk before there are jobs.
        with _transaction(connection):
            connection.execute("UPDATE numbers SET next = next")
        connection.execute("PRAGMA busy_timeout = 0")
    except BaseException:
        connection.close()
        raise
    return connection


def _check(connection: sqlite3.Connection, path: Path) -> int:
    """Return a state file's version; raise StoreError if it is newer than VERSION."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    if application != APPLICATION:
        raise StoreError(f"cannot use the state file {path}: {_ALIEN}")
    version = int(connection.execute("PRAGMA user_version").fetchone()[0])
    if version > VERSION:
        raise StoreError(
            f"cannot use the state file {path}: it has version {version}, and this tf_malleable"
            f" reads versions up to {VERSION}; upgrade tf_malleable"
        )
    return version


def _upgrade(connection: sqlite3.Connection, version: int) -> None:
    for script in upgrades(version):
        connection.executescript(script)


def _text(raw: bytes) -> str:
    """Return text even if it is not valid UTF-8: a bad row must not hide the others."""
    return raw.decode(errors="replace")


def _copy(connection: sqlite3.Connection, copy: Path) -> None:
    """Copy a state file, including its log; only the owner may read the copy."""
    copy.unlink(missing_ok=True)
    os.close(os.open(copy, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    connection.execute("VACUUM INTO ?", (str(copy),))


def _copy_before_migration(connection: sqlite3.Connection, path: Path, version: int) -> None:
    """Keep a copy next to the file, for the version of the controller that wrote it."""
    part = path.with_name(f"{path.name}.part")
    try:
        _copy(connection, part)
        part.replace(path.with_name(f"{path.name}.version-{version}"))
    finally:
        part.unlink(missing_ok=True)


def _vacuum_if_sparse(connection: sqlite3.Connection) -> None:
    """Return the free pages of a sparse file to the file system, before there are jobs."""
    free = _free_pages(connection)
    pages = int(connection.execute("PRAGMA page_count").fetchone()[0])
    if pages < _SPARSE_PAGES or free < _SPARSE_SHARE * pages:
        return
    with suppress(sqlite3.OperationalError):  # It temporarily needs the same space again.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _free_pages(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA freelist_count").fetchone()[0])


def _reserve_pages(connection: sqlite3.Connection) -> None:
    """Have some free pages in the file, for jobs that come while the disk is full."""
    missing = _RESERVED_PAGES - _free_pages(connection)
    if missing <= 0:
        return
    size = missing * int(connection.execute("PRAGMA page_size").fetchone()[0])
    with suppress(sqlite3.OperationalError):  # The disk is full already.
        with _transaction(connection):
            connection.execute("INSERT INTO set_aside (document) VALUES (zeroblob(?))", (size,))
            connection.execute("DELETE FROM set_aside WHERE rowid = last_insert_rowid()")
        connection.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()


def _reserve_log(path: Path) -> None:
    """Have the log take its space on the disk now. SQLite ends it at the first invalid frame."""
    with suppress(OSError):  # The disk is full already, or its file system cannot do that.
        descriptor = os.open(f"{path}-wal", os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.posix_fallocate(descriptor, 0, _RESERVED_LOG)
        finally:
            os.close(descriptor)


@contextmanager
def _transaction(connection: sqlite3.Connection) -> Iterator[None]:
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        # SQLite rolls back by itself only after some errors.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _inode(path: str) -> int | None:
    try:
        return os.stat(path).st_ino
    except OSError:
        return None


def _copy_log(path: Path) -> None:
    """Copy the log into the file as far as possible without blocking other connections.

    A failed copy is retried after the next thousand rows; nothing is lost from the log.
    """
    with suppress(sqlite3.Error):
        connection = sqlite3.connect(f"{path.as_uri()}?mode=rw", uri=True)
        with closing(connection):
            connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
