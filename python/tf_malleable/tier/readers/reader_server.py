# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Reader server: receives messages of readers on a SOCK_SEQPACKET socket, without answers.

A reader is any program of any user. Whatever it sends, the daemon continues, and at worst that
user's own copies are not made.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
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
from tf_malleable.tier.readers.access_order import OpeningProgram
from tf_malleable.tier.readers.handoff import Followed, Handoff
from tf_malleable.tier.readers.lookup import Lookup
from tf_malleable.tier.readers.prefetch import Prefetcher
from tf_malleable.tier.readers.reader_events import Opened, ReaderEvents
from tf_malleable.tier.readers.reader_queue import HandedFile

_BACKLOG: Final = 512
_MOST_DESCRIPTORS: Final = 3
_AT_A_TIME: Final = 64

_OPENS: Final = (
    MessageKind.ASK,
    MessageKind.GROWING,
    MessageKind.WHOLE,
    MessageKind.COUNTS,
)

_log = logging.getLogger(__name__)


@dataclass
class _Connection:
    """Connection to the process of one reader.

    Attributes:
        socket: Connected socket.
        uid: User id of the reader.
        counts: Last reported counters of the reader.
        opened: Files whose copying the reader has begun, by path.
        program: State for learning the order in which the reader opens files.
        queue: Queue of files that the reader hands over; None until it passes one.
    """

    socket: socket.socket
    uid: int
    counts: ReaderCounts = field(default_factory=ReaderCounts)
    opened: dict[str, Opened] = field(default_factory=dict)
    program: OpeningProgram = field(default_factory=OpeningProgram)
    queue: Followed | None = None


class ReaderServer:
    """Server for the messages of readers."""

    def __init__(
        self,
        beginning: ReaderEvents,
        asking: Lookup,
        counters: Counters,
        prefetching: Prefetcher | None = None,
        taking: Handoff | None = None,
    ) -> None:
        """Create a server.

        Args:
            beginning: Handler of messages about copies.
            asking: Lookup service.
            counters: Counters to which those of the readers are added.
            prefetching: Prefetcher; None for no prefetching.
            taking: Handoff of small files; None for no handoff.
        """
        self._beginning, self._asking, self._counters = beginning, asking, counters
        self._prefetching, self._taking = prefetching, taking
        self._connections: dict[int, _Connection] = {}
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
                self._beginning.admit(connection.uid)
            except OSError as error:
                _log.warning("a reader is refused: %s", error)
                accepted.close()
                continue
            number = accepted.fileno()
            self._connections[number] = connection
            asyncio.get_running_loop().add_reader(number, self._hear, connection)

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
        path = message.path
        if path and self._prefetching is not None and message.kind in _OPENS:
            is_copy = message.kind is MessageKind.COUNTS
            self._prefetching.opened(connection.program, path, is_copy)
        if message.kind is MessageKind.ASK:
            if len(descriptors) != 1 or not path:
                raise ProtocolError("a pipe and a path belong to a question")
            self._asking.ask(path, connection.uid, descriptors[0])
            return
        if descriptors and not all(stat.S_ISREG(os.fstat(each).st_mode) for each in descriptors):
            raise ProtocolError("the descriptors of a copy must be of files")
        if message.kind is MessageKind.GROWING:
            self._begin(connection, path, descriptors)
        elif message.kind is MessageKind.QUEUE:
            self._follow(connection, descriptors)
        elif message.kind in (MessageKind.WHOLE, MessageKind.UNSEEN) and descriptors:
            self._take_whole(connection, message, descriptors)
        elif descriptors:
            raise ProtocolError("no descriptors belong to this message")
        else:
            self._note(connection, message)

    def _begin(self, connection: _Connection, path: str, descriptors: list[int]) -> None:
        if not 2 <= len(descriptors) <= _MOST_DESCRIPTORS or not path:
            raise ProtocolError("two or three descriptors and a path belong to a new copy")
        self._asking.habits.read(path, os.fstat(descriptors[0]).st_size)
        before = connection.opened.pop(path, None)
        if before is not None:
            self._beginning.closed(before)
        connection.opened[path] = self._beginning.begin(path, connection.uid, *descriptors)

    def _take_whole(
        self, connection: _Connection, message: ReaderMessage, descriptors: list[int]
    ) -> None:
        path, identity = message.path, message.identity
        if identity is None or not path or len(descriptors) == _MOST_DESCRIPTORS:
            raise ProtocolError("a path and a status belong to a file")
        self._asking.habits.read(path, identity.size)
        self._beginning.whole(path, connection.uid, identity, *descriptors)

    def _note(self, connection: _Connection, message: ReaderMessage) -> None:
        """Handle a message without descriptors."""
        path, uid, beginning = message.path, connection.uid, self._beginning
        if message.kind is MessageKind.FULL:
            beginning.full(path, uid)
        elif message.kind is MessageKind.CLOSED:
            opened = connection.opened.pop(path, None)
            if opened is not None:
                beginning.closed(opened)
            elif path:
                self._asking.declined(path, uid)
        elif message.kind is MessageKind.UNSEEN:
            opened = connection.opened.get(path)
            if opened is not None:
                beginning.unseen(opened)
        elif message.kind is MessageKind.CHANGED:
            beginning.changed(path, uid)
            self._changed_later(path, uid)
        elif message.kind is MessageKind.HANDED:
            if connection.queue is not None:
                connection.queue.handed.set()
        elif path:
            beginning.read(path, uid)

    def _follow(self, connection: _Connection, descriptors: list[int]) -> None:
        if self._taking is None or connection.uid != os.geteuid() or len(descriptors) != 1:
            raise ProtocolError("only the tier's own user hands files over, with a descriptor")
        if connection.queue is not None:
            connection.queue.end()

        def heard(taken: HandedFile) -> None:
            if taken.error:
                self._asking.declined(taken.path, connection.uid)
                return
            if self._prefetching is not None:
                self._prefetching.opened(connection.program, taken.path)
            self._asking.published(taken.path, connection.uid, taken.identity.size)

        connection.queue = self._taking.follow(descriptors[0], heard)
        os.close(descriptors[0])

    def _changed_later(self, path: str, uid: int) -> None:
        """Drop copies of a file that other programs had handed over before its change."""
        if self._taking is not None:
            self._taking.then(lambda: self._beginning.changed(path, uid))

    def _count(self, connection: _Connection, counts: ReaderCounts) -> None:
        before, connection.counts = connection.counts, counts
        if counts == before:
            return
        new = counts.since(before)
        counters = self._counters
        counters.copy_opens += new.copy_opens
        counters.copy_bytes += new.copy_bytes
        counters.copy_stats += new.copy_stats
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
        for opened in connection.opened.values():
            self._beginning.closed(opened)
        prefetching = self._prefetching
        if connection.queue is not None:
            connection.queue.end()
        if prefetching is None:
            return
        if self._taking is None:
            prefetching.ended(connection.program)
        else:
            # Only when the last files that the program opened are known.
            self._taking.then(lambda: prefetching.ended(connection.program))


def _close_all(descriptors: list[int]) -> None:
    for each in descriptors:
        os.close(each)
