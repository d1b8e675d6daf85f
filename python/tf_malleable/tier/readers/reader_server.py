# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader server: receives messages of readers on a SOCK_SEQPACKET socket, without answers.

A reader is any program of any user. Whatever it sends, the daemon continues, and at worst that
user's own copies are not made.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import resource
import socket
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tf_malleable.linux.processes.peer_credentials import peer_of
from tf_malleable.tier.metrics import Counters
from tf_malleable.tier.protocol import (
    LARGEST_MESSAGE,
    MessageKind,
    ProtocolError,
    ReaderCounts,
    ReaderMessage,
)
from tf_malleable.tier.readers.lookup import Lookup
from tf_malleable.tier.readers.reader_events import ReaderEvents
from tf_malleable.tier.store.partial_copy import Reading

_BACKLOG: Final = 512
_MOST_DESCRIPTORS: Final = 3
_DESCRIPTORS: Final = {MessageKind.READING: 2, MessageKind.WHOLE: 1, MessageKind.ASK: 1}
_AT_A_TIME: Final = 64
# No user takes more than one of so many parts of the descriptors for connections, and no more for
# files.
_SHARE_OF_DESCRIPTORS: Final = 4

_log = logging.getLogger(__name__)


@dataclass
class _Connection:
    """Connection to the process of one reader.

    Attributes:
        socket: Connected socket.
        uid: User id of the reader.
        counts: Last reported counters of the reader.
        readings: What the reader reads, by path; a process may have a file open several times.
    """

    socket: socket.socket
    uid: int
    counts: ReaderCounts = field(default_factory=ReaderCounts)
    readings: dict[str, list[Reading]] = field(default_factory=dict)


class ReaderServer:
    """Server for the messages of readers."""

    def __init__(self, events: ReaderEvents, lookup: Lookup, counters: Counters) -> None:
        """Create a server.

        Args:
            events: Handler of messages about copies.
            lookup: Lookup service.
            counters: Counters to which those of the readers are added.
        """
        self._events, self._lookup, self._counters = events, lookup, counters
        self._connections: dict[int, _Connection] = {}
        self._readings: Counter[int] = Counter()
        self._listening: socket.socket | None = None
        self._path: Path | None = None

    def start(self, path: Path, mode: int) -> None:
        """Listen at a path, replacing the socket of a daemon that has ended.

        Raises:
            OSError: Listening at the path failed.
        """
        with suppress(FileNotFoundError):
            path.unlink()
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
        try:
            listening.bind(str(path))
            os.chmod(path, mode)
            listening.listen(_BACKLOG)
        except OSError:
            listening.close()
            raise
        self._listening, self._path = listening, path
        asyncio.get_running_loop().add_reader(listening.fileno(), self._accept)

    def stop(self) -> None:
        """Stop listening, and close all connections."""
        loop = asyncio.get_running_loop()
        if self._listening is not None and self._path is not None:
            loop.remove_reader(self._listening.fileno())
            self._listening.close()
            with suppress(OSError):
                self._path.unlink()
        for connection in tuple(self._connections.values()):
            self._close(connection)

    def _accept(self) -> None:
        assert self._listening is not None
        for _ in range(_AT_A_TIME):
            try:
                accepted, _ = self._listening.accept()
            except OSError:
                return
            accepted.setblocking(False)
            try:
                connection = _Connection(accepted, peer_of(accepted).uid)
                self._admit(connection.uid)
            except OSError as error:
                _log.warning("a reader is refused: %s", error)
                accepted.close()
                continue
            number = accepted.fileno()
            self._connections[number] = connection
            asyncio.get_running_loop().add_reader(number, self._hear, connection)

    def _admit(self, uid: int) -> None:
        """Prepare for a connection of a user.

        Raises:
            OSError: The user has too many connections, or its folders cannot be created.
        """
        most = _share_of_descriptors()
        if sum(each.uid == uid for each in self._connections.values()) >= most:
            raise OSError(errno.EMFILE, f"user {uid} has {most} connections already")
        self._events.admit(uid)

    def _hear(self, connection: _Connection) -> None:
        counts = connection.counts
        for _ in range(_AT_A_TIME):
            try:
                data, descriptors, _, _ = socket.recv_fds(
                    connection.socket, LARGEST_MESSAGE, _MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
                )
            except BlockingIOError:
                break
            except OSError:
                data, descriptors = b"", []
            if not data:
                self._count(connection, counts)
                self._close(connection)
                return
            try:
                message = ReaderMessage.decode(data)
                counts = message.counts
                self._do(connection, message, descriptors)
            except ProtocolError as error:
                _log.info("a reader of user %d: %s", connection.uid, error)
                _close_all(descriptors)
        self._count(connection, counts)

    def _do(self, connection: _Connection, message: ReaderMessage, descriptors: list[int]) -> None:
        """Handle a message; takes over its descriptors, unless it raises ProtocolError."""
        kind, path, uid = message.kind, message.path, connection.uid
        if len(descriptors) != _DESCRIPTORS.get(kind, 0) and not (
            kind is MessageKind.UNSEEN and len(descriptors) == 1
        ):
            raise ProtocolError("other descriptors belong to this message")
        if not path and kind is not MessageKind.COUNTS:
            raise ProtocolError("a path belongs to this message")
        if kind is MessageKind.ASK:
            self._lookup.ask(path, uid, descriptors[0])
        elif kind is MessageKind.READING:
            self._read(connection, path, *descriptors)
        elif descriptors:
            self._take(message, uid, descriptors[0])
        elif kind is MessageKind.COUNTS:
            if path:
                self._events.read(path, uid)
        elif not (readings := connection.readings.get(path)):
            self._lookup.declined(path, uid)
        elif kind is MessageKind.UNSEEN:
            for reading in readings:
                reading.unseen()
        else:
            self._close_reading(connection, path)

    def _close_reading(self, connection: _Connection, path: str) -> None:
        """Note that a reader has closed a file, which it may still have open otherwise.

        The message does not say which open file it was, and the map of another one may still be
        written to: all maps are read until the last file is closed.
        """
        readings = connection.readings[path]
        left = [reading for reading in readings if not reading.is_left]
        left[0].is_left = True
        if len(left) == 1:
            self._end(connection, path)

    def _end(self, connection: _Connection, path: str) -> None:
        readings = connection.readings.pop(path)
        self._readings[connection.uid] -= len(readings)
        for reading in readings:
            reading.close()

    def _read(self, connection: _Connection, path: str, source: int, growth: int) -> None:
        if self._readings[connection.uid] >= _share_of_descriptors() // 2:
            raise ProtocolError("a user has too many files copied at a time")
        reading = self._events.reading(path, connection.uid, source, growth)
        self._lookup.habits.read(path, os.fstat(source).st_size)
        connection.readings.setdefault(path, []).append(reading)
        self._readings[connection.uid] += 1

    def _take(self, message: ReaderMessage, uid: int, source: int) -> None:
        path, identity = message.path, message.identity
        if identity is None:
            raise ProtocolError("a status belongs to a file")
        take = self._events.whole if message.kind is MessageKind.WHOLE else self._events.unseen
        take(path, uid, identity, source)
        self._lookup.habits.read(path, identity.size)

    def _count(self, connection: _Connection, counts: ReaderCounts) -> None:
        before, connection.counts = connection.counts, counts
        if counts == before:
            return
        new = counts.since(before)
        counters = self._counters
        counters.copy_opens += new.copy_opens
        counters.copy_bytes += new.copy_bytes
        counters.source_opens += new.source_opens
        counters.source_bytes += new.source_bytes
        counters.growing_bytes += new.growing_bytes
        counters.waits += new.waits
        counters.wait_seconds += new.wait_ns / 1e9

    def _close(self, connection: _Connection) -> None:
        number = connection.socket.fileno()
        asyncio.get_running_loop().remove_reader(number)
        self._connections.pop(number, None)
        connection.socket.close()
        for path in tuple(connection.readings):
            self._end(connection, path)


def _share_of_descriptors() -> int:
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0] // _SHARE_OF_DESCRIPTORS


def _close_all(descriptors: list[int]) -> None:
    for each in descriptors:
        os.close(each)
