# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader server: receives messages of readers on a SOCK_SEQPACKET socket, without answers.

A reader is any program of any user. Whatever it sends, the daemon continues, and at worst that
user's own copies are not made. Nothing here waits for a reader, and readers of one user who send
more than the daemon can do are heard later than others.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tf_malleable.linux.file_status import FileStatus
from tf_malleable.linux.processes.peer_credentials import peer_of
from tf_malleable.linux.processes.subordinate_uids import account_of
from tf_malleable.tier.node_messages import key_of
from tf_malleable.tier.protocol import (
    LARGEST_MESSAGE,
    MessageKind,
    ProtocolError,
    ReaderCounts,
    ReaderMessage,
)
from tf_malleable.tier.readers.disposal import Disposal
from tf_malleable.tier.readers.lookup import Lookup, reply_socket
from tf_malleable.tier.readers.reader_events import (
    MOST_DESCRIPTORS,
    Reader,
    ReaderEvents,
    check_files,
)
from tf_malleable.tier.readers.reader_share import MessagePace, Share
from tf_malleable.tier.service import TierService
from tf_malleable.tier.store.partial_copy import Reading
from tf_malleable.tier.store.tenancy import PUBLIC, private_area

_BACKLOG: Final = 512
_AT_A_TIME: Final = 64
# One turn of a reader on the CPU, after which the others have theirs.
_TURN_SECONDS: Final = 0.002
# Each user's share of a CPU, for the event loop.
_RATE: Final = 0.5
_BURST_SECONDS: Final = 0.1
_RETRY_SECONDS: Final = 0.1
# Messages about small files are heard together: to be woken up for one costs more than the message.
# A reader's socket holds some 200 of them.
_TOGETHER: Final = 16
_PAUSE_SECONDS: Final = (0.02, 0.05)
_CUT_OFF: Final = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
# Share of the descriptors of the daemon that one user's connections may take.
_MOST_OF_ONE: Final = 0.25

_log = logging.getLogger(__name__)


@dataclass
class _User:
    """One user with readers, also under subordinate uids.

    Attributes:
        account: User id that limits per user count.
        share: Share of the event loop.
        disposal: Disposal of refused descriptors.
        connections: Number of connections.
    """

    account: int
    share: Share = field(default_factory=lambda: Share(_RATE, _BURST_SECONDS))
    disposal: Disposal = field(default_factory=Disposal)
    connections: int = 0


@dataclass
class _Connection:
    """Connection to the process of one reader.

    Attributes:
        socket: Connected socket.
        reader: User ids of the reader.
        user: User whose share the reader uses.
        counts: Last reported counters of the reader.
        readings: What the reader reads, by path; a process may have a file open several times.
        holds: Number of reasons to hear no message at present.
        small: Path in the last message, if it was about a small file; else empty.
        pace: Pace of its messages about small files.
        is_closed: Whether the connection has been closed.
    """

    socket: socket.socket
    reader: Reader
    user: _User
    counts: ReaderCounts = field(default_factory=ReaderCounts)
    readings: dict[str, list[Reading]] = field(default_factory=dict)
    # One until it is added to the event loop.
    holds: int = 1
    small: str = ""
    pace: MessagePace = field(default_factory=lambda: MessagePace(_TOGETHER, *_PAUSE_SECONDS))
    is_closed: bool = False


class ReaderServer:
    """Server for the messages of readers."""

    def __init__(self, service: TierService, events: ReaderEvents, lookup: Lookup) -> None:
        """Create a server.

        Args:
            service: Service of the tier, to whose counters those of the readers are added.
            events: Handler of messages about copies.
            lookup: Lookup service.
        """
        self._service, self._events, self._lookup = service, events, lookup
        self._connections: dict[int, _Connection] = {}
        self._users: dict[int, _User] = {}
        most, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._most_connections = max(1, int(most * _MOST_OF_ONE))
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
            except BlockingIOError:
                return
            except OSError as error:
                _log.warning("no reader is accepted: %s", error)
                self._hear_later()
                return
            accepted.setblocking(False)
            try:
                uid = peer_of(accepted).uid
                account = account_of(uid)
                user = self._users.setdefault(account, _User(account))
                if user.connections >= self._most_connections:
                    raise OSError(f"user {uid} has {user.connections} already")
                self._service.store.admit(uid)
            except OSError as error:
                _log.warning("a reader is refused: %s", error)
                accepted.close()
                continue
            connection = _Connection(accepted, Reader(uid, user.account), user)
            user.connections += 1
            self._connections[accepted.fileno()] = connection
            self._go_on(connection)

    def _hear_later(self) -> None:
        """Accept no connection for a moment, as there are no free descriptors."""
        loop, listening = asyncio.get_running_loop(), self._listening
        assert listening is not None
        loop.remove_reader(listening.fileno())

        def go_on() -> None:
            if listening.fileno() >= 0:
                loop.add_reader(listening.fileno(), self._accept)

        loop.call_later(_RETRY_SECONDS, go_on)

    def _hear(self, connection: _Connection) -> None:
        """Handle some messages of a reader, as far as its user's share of the time goes."""
        share = connection.user.share
        pause = share.spend(0.0, time.monotonic())
        if not pause:
            # Of the CPU, as the time may be other processes'.
            began, counts, heard, goes_on = time.thread_time(), connection.counts, 0, True
            while goes_on and heard < _AT_A_TIME and time.thread_time() - began < _TURN_SECONDS:
                counts, goes_on = self._hear_one(connection, counts)
                heard += goes_on
            self._count(connection, counts)
            pause = share.spend(time.thread_time() - began, time.monotonic())
            if connection.small and not goes_on and not self._lookup.is_asked(connection.small):
                pause = max(pause, connection.pace.pause_after(heard))
        if pause and not connection.is_closed:
            self._hold(connection)
            asyncio.get_running_loop().call_later(pause, self._go_on, connection)

    def _hear_one(self, connection: _Connection, counts: ReaderCounts) -> tuple[ReaderCounts, bool]:
        """Handle a message; return the reader's counts, and whether another one may be handled."""
        try:
            data, descriptors, flags, _ = socket.recv_fds(
                connection.socket, LARGEST_MESSAGE, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC
            )
        except BlockingIOError:
            return counts, False
        except OSError:
            data, descriptors, flags = b"", [], 0
        if data:
            try:
                if flags & _CUT_OFF:
                    raise ProtocolError("a message is too long")
                message = ReaderMessage.decode(data)
                counts = message.counts
                self._do(connection, message, descriptors)
            except (ProtocolError, OSError) as error:
                _log.info("a reader of user %d: %s", connection.reader.uid, error)
        else:
            self._count(connection, counts)
            self._close(connection)
        # Those of which nobody has become the owner.
        if descriptors:
            self._dispose(connection, descriptors)
        return counts, bool(data) and not descriptors

    def _dispose(self, connection: _Connection, descriptors: list[int]) -> None:
        """Close descriptors in a thread, and hear no more of the reader meanwhile."""
        loop = asyncio.get_running_loop()
        self._hold(connection)

        def closed() -> None:
            with suppress(RuntimeError):  # The loop has ended.
                loop.call_soon_threadsafe(self._go_on, connection)

        connection.user.disposal.close(descriptors, closed)

    def _hold(self, connection: _Connection) -> None:
        connection.holds += 1
        if not connection.is_closed:
            asyncio.get_running_loop().remove_reader(connection.socket.fileno())

    def _go_on(self, connection: _Connection) -> None:
        connection.holds -= 1
        if not connection.holds and not connection.is_closed:
            number = connection.socket.fileno()
            asyncio.get_running_loop().add_reader(number, self._hear, connection)

    def _do(self, connection: _Connection, message: ReaderMessage, descriptors: list[int]) -> None:
        """Handle a message; descriptors that get another owner are removed from the list.

        Raises:
            ProtocolError: The message is malformed.
            OSError: Something that the reader has passed does not work.
        """
        kind, path, uid = message.kind, message.path, connection.reader.uid
        connection.small = path if kind is MessageKind.WHOLE else ""
        if not path and kind is not MessageKind.COUNTS:
            raise ProtocolError("a path belongs to this message")
        if kind is MessageKind.ASK:
            reply_to = reply_socket(descriptors)
            descriptors.clear()
            self._lookup.ask(path, uid, reply_to)
            return
        files = check_files(kind, descriptors)
        if kind is MessageKind.READING:
            self._read(connection, path, descriptors, files[0])
        elif descriptors:
            self._take(message, connection.reader, descriptors, files[0])
        elif kind is MessageKind.COUNTS:
            for area in (private_area(uid), PUBLIC) if path else ():
                self._service.read(key_of(area, path))
        elif path not in connection.readings:
            self._lookup.declined(path, uid)
        elif kind is MessageKind.UNSEEN:
            for reading in connection.readings[path]:
                reading.unseen()
        else:
            self._close_reading(connection, path)

    def _read(
        self, connection: _Connection, path: str, descriptors: list[int], about: FileStatus
    ) -> None:
        source, growth = descriptors
        reading = self._events.reading(path, connection.reader, source, growth, about)
        descriptors.clear()
        self._lookup.habits.read(path, reading.size)
        connection.readings.setdefault(path, []).append(reading)

    def _take(
        self, message: ReaderMessage, reader: Reader, descriptors: list[int], about: FileStatus
    ) -> None:
        path, identity = message.path, message.identity
        if identity is None:
            raise ProtocolError("a status belongs to a file")
        take = self._events.whole if message.kind is MessageKind.WHOLE else self._events.unseen
        take(path, reader, identity, descriptors[0], about)
        descriptors.clear()
        self._lookup.habits.read(path, identity.size)

    def _close_reading(self, connection: _Connection, path: str) -> None:
        """Note that a reader has closed a file, which it may still have open otherwise.

        The message does not say which open file it was, and the map of another one may still be
        written to: all maps are read until the last file is closed.
        """
        left = [reading for reading in connection.readings[path] if not reading.is_left]
        left[0].is_left = True
        if len(left) == 1:
            self._end(connection, path)

    def _end(self, connection: _Connection, path: str) -> None:
        for reading in connection.readings.pop(path):
            reading.close()

    def _count(self, connection: _Connection, counts: ReaderCounts) -> None:
        before, connection.counts = connection.counts, counts
        if counts == before:
            return
        new, counters = counts.since(before), self._service.counters
        for name in ReaderCounts._fields[:-1]:
            setattr(counters, name, getattr(counters, name) + getattr(new, name))
        counters.wait_seconds += new.wait_ns / 1e9

    def _close(self, connection: _Connection) -> None:
        number = connection.socket.fileno()
        asyncio.get_running_loop().remove_reader(number)
        self._connections.pop(number, None)
        connection.is_closed = True
        connection.user.connections -= 1
        connection.socket.close()
        for path in tuple(connection.readings):
            self._end(connection, path)
