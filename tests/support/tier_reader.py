# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A reader of a tier, as the shim in a program is one; see cc/tier/protocol.h."""

from __future__ import annotations

import os
import select
import socket
from pathlib import Path

from tests.support.tiers import TierNode
from tf_malleable.tier.protocol import (
    MAP_BYTES,
    Identity,
    MapHead,
    MessageKind,
    ReaderCounts,
    ReaderMessage,
    unit_of,
)


class TierReader:
    """One reader's process, as far as the daemon sees it."""

    def __init__(self, node: TierNode) -> None:
        self.node = node
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.socket.connect(str(node.socket))
        self.counts = ReaderCounts()

    def close(self) -> None:
        self.socket.close()

    def say(
        self, kind: MessageKind, path: Path, *descriptors: int, identity: Identity | None = None
    ) -> None:
        data = ReaderMessage(kind, self.counts, str(path), identity).encode()
        socket.send_fds(self.socket, [data], list(descriptors))

    def ask(self, path: Path, seconds: float = 10.0) -> str:
        """Return all replies to a question, as letters."""
        read, written = socket.socketpair()
        self.say(MessageKind.ASK, path, written.fileno())
        written.close()
        heard = b""
        with read:
            while select.select([read], [], [], seconds)[0]:
                piece = read.recv(16)
                if not piece:
                    return heard.decode()
                heard += piece
        raise AssertionError(f"no reply in time, after {heard!r}")

    def whole(self, path: Path, kind: MessageKind = MessageKind.WHOLE) -> bytes:
        """Read a small file from the source, and tell the daemon."""
        with open(path, "rb") as source:
            data = source.read()
            identity = Identity.of(os.fstat(source.fileno()))
            self.say(kind, path, source.fileno(), identity=identity)
        return data


class ReadFile:
    """A large file that a reader reads."""

    def __init__(self, reader: TierReader, path: Path) -> None:
        self.reader, self.path = reader, path
        self.source = os.open(path, os.O_RDONLY)
        self.identity = Identity.of(os.fstat(self.source))
        size = self.identity.size
        self.unit = unit_of(size)
        self.head = MapHead(self.unit, -(-size // self.unit), 0, self.identity)
        self.map = os.memfd_create("tier")
        os.pwrite(self.map, self.head.encode(False), 0)
        reader.say(MessageKind.READING, path, self.source, self.map)

    def read(self, begin: int, end: int) -> bytes:
        """Read a part of it, from the beginning of a unit to that of another, or the end."""
        data = os.pread(self.source, end - begin, begin)
        count = -(-end // self.unit) - begin // self.unit
        os.pwrite(self.map, b"\x01" * count, MAP_BYTES + begin // self.unit)
        return data

    def end(self) -> None:
        self.reader.say(MessageKind.CLOSED, self.path)
