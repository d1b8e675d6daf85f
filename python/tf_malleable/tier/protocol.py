# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Protocol between the shim in a reader and the daemon; see cc/tier/protocol.h."""

from __future__ import annotations

import os
import re
import stat
import struct
from dataclasses import dataclass
from enum import IntEnum, IntFlag
from pathlib import Path
from typing import Final, NamedTuple

from tf_malleable.linux.file_status import FileStatus

VERSION: Final = 2
SOURCE_ATTRIBUTE: Final = "user.tfm.source"
BLOCKS_ATTRIBUTE: Final = "user.tfm.blocks"

_IDENTITY: Final = struct.Struct("<IIQQqqqqqIIIIIIIIqqQQ")
_IDENTITY_MAGIC: Final = 0x694D4654
_MAP: Final = struct.Struct("<6I8x128s96x")
_MAP_MAGIC: Final = 0x6D4D4654
MAP_BYTES: Final = _MAP.size
STATE_OFFSET: Final = 16
FETCHING_OFFSET: Final = 20
_LEAST_UNIT: Final = 4096
_MOST_UNITS: Final = 65536
STATE: Final = struct.Struct("<IIQQQQQQ")
STATE_MAGIC: Final = 0x734D4654
STATE_BYTES: Final = 4096
VALID_OFFSET: Final = 16
UNASKED_OFFSET: Final = 64
UNASKED: Final = 500
MOST_TEXT: Final = 16383
_MESSAGE: Final = struct.Struct("<II128s7Q")
_MESSAGE_MAGIC: Final = 0x714D4654
SETTLED_SECONDS: Final = 10.0
"""Age below which a modified file may change again with the same modification time."""
LARGEST_MESSAGE: Final = _MESSAGE.size + 4096
SMALL_FILE_BYTES: Final = 1 << 20
"""Maximum size of a file that is copied at once, without a block map."""
_ODD_PART: Final = re.compile(r"/\.{0,2}(?:/|\Z)|\0")
_FNV_PRIME: Final = 0x0000000001000000000000000000013B
_FNV_BASIS: Final = 0x6C62272E07BB014262B821756295C58D
_FNV_MASK: Final = (1 << 128) - 1
_FNV64_PRIME: Final = 0x100000001B3
_FNV64_BASIS: Final = 0xCBF29CE484222325
_MASK64: Final = (1 << 64) - 1


class ProtocolError(ValueError):
    """A reader has sent or written malformed data; the message says why."""


class MapState(IntEnum):
    """State of a partial copy."""

    GROWING = 0
    FULL = 1
    DROPPED = 2


class StateFlag(IntFlag):
    """Operations that readers may use."""

    FILLS = 1
    ASKS = 2
    SHARED = 4
    UNCHECKED = 8
    SYNCS = 16


class MessageKind(IntEnum):
    """Kind of a reader's message."""

    READING = 1
    CLOSED = 2
    UNSEEN = 3
    COUNTS = 4
    WHOLE = 5
    ASK = 6


_KINDS: Final = {kind.value: kind for kind in MessageKind}


class Reply(IntEnum):
    """Answer to a reader's lookup: one byte."""

    SOURCE = ord("S")
    COPY = ord("C")
    FOLLOW = ord("F")
    WAIT = ord("W")


# Tuples, not dataclasses: for thousands of small files, creating one would take longer than
# everything else here.
class Identity(NamedTuple):
    """Status of a file in the source, which the shim reports for the copy; fields as in stat.

    The last field is the inode of the copy itself, set in the copy's extended attribute.
    """

    device: int
    inode: int
    size: int
    mtime_s: int
    ctime_s: int
    atime_s: int
    btime_s: int
    mtime_ns: int
    ctime_ns: int
    atime_ns: int
    btime_ns: int
    mode: int
    uid: int
    gid: int
    links: int
    blocks: int
    block_size: int
    copy_inode: int = 0

    @classmethod
    def of(cls, about: os.stat_result | FileStatus) -> Identity:
        """Return the identity from a stat result; the birth time is unknown."""
        mtime, ctime, atime = (
            divmod(each, 10**9)
            for each in (about.st_mtime_ns, about.st_ctime_ns, about.st_atime_ns)
        )
        return cls(
            about.st_dev, about.st_ino, about.st_size, mtime[0], ctime[0], atime[0], 0,
            mtime[1], ctime[1], atime[1], 0, about.st_mode, about.st_uid, about.st_gid,
            about.st_nlink, about.st_blocks, about.st_blksize,
        )  # fmt: skip

    @property
    def _modified_ns(self) -> int:
        return self.mtime_s * 10**9 + self.mtime_ns

    @property
    def version(self) -> str:
        """Version of the file: text that nodes compare with theirs."""
        return f"{self.size}.{self._modified_ns}.{self.inode}"

    def is_settled(self, now: float) -> bool:
        """Return whether the last modification was at least SETTLED_SECONDS ago.

        Args:
            now: Current time in seconds since 1970.
        """
        return now - self._modified_ns / 1e9 >= SETTLED_SECONDS

    def encode(self) -> bytes:
        """Return the identity in its binary format."""
        return _IDENTITY.pack(_IDENTITY_MAGIC, VERSION, *self[:-1], 0, self.copy_inode)

    @classmethod
    def decode(cls, data: bytes) -> Identity:
        """Decode the result of encode().

        Raises:
            ProtocolError: The data is malformed.
        """
        if len(data) != _IDENTITY.size:
            raise ProtocolError("the identity of a file has 128 bytes")
        fields = _IDENTITY.unpack(data)
        if fields[:2] != (_IDENTITY_MAGIC, VERSION):
            raise ProtocolError("malformed identity of a file")
        return cls._make(fields[2:-2] + fields[-1:])

    def on(self, device: int) -> Identity:
        """Return the identity with the number that the source's device has on this node."""
        return self._replace(device=device, copy_inode=0)

    def version_stamp(self) -> int:
        """Return the modification time of a copy in ns; see VersionStamp in protocol.h."""
        code = _FNV64_BASIS
        for each in (
            self.inode, self.size, self.mtime_s, self.mtime_ns, self.ctime_s, self.ctime_ns
        ):  # fmt: skip
            code = (code ^ each & _MASK64) * _FNV64_PRIME & _MASK64
            code ^= code >> 32
        return (code & (1 << 29) - 1) * 10**9 + (code >> 29) % 10**9

    def is_same(self, about: os.stat_result | FileStatus) -> bool:
        """Return whether a stat result shows the same version with the same permissions."""
        return (
            stat.S_ISREG(about.st_mode)
            and (self.inode, self.size) == (about.st_ino, about.st_size)
            and self._modified_ns == about.st_mtime_ns
            # Changes with mode, owner and ACL, too, and cannot be set back.
            and self.ctime_s * 10**9 + self.ctime_ns == about.st_ctime_ns
        )


@dataclass(frozen=True)
class MapHead:
    """Header of the block map of a partial copy.

    Attributes:
        unit: Number of bytes of the file for which one byte of the map stands.
        units: Number of units.
        state: State of the copy.
        identity: Identity of the file in the source.
    """

    unit: int
    units: int
    state: int
    identity: Identity

    def encode(self, is_fetching: bool) -> bytes:
        """Return the header in its binary format."""
        return _MAP.pack(
            _MAP_MAGIC, VERSION, self.unit, self.units, self.state, is_fetching,
            self.identity.encode(),
        )  # fmt: skip

    @classmethod
    def decode(cls, data: bytes) -> MapHead:
        """Decode the result of encode().

        Raises:
            ProtocolError: The data is malformed.
        """
        if len(data) < _MAP.size:
            raise ProtocolError("the map of a copy is too short")
        magic, version, unit, units, state, _, identity = _MAP.unpack_from(data)
        if (magic, version) != (_MAP_MAGIC, VERSION):
            raise ProtocolError("malformed map of a copy")
        found = cls(unit, units, state, Identity.decode(identity))
        size = found.identity.size
        if unit != unit_of(size) or units != -(-size // unit):
            raise ProtocolError("the map of a copy has another number of units")
        return found


class ReaderCounts(NamedTuple):
    """Counters of a reader since its start; see Counts in protocol.h."""

    copy_opens: int = 0
    copy_bytes: int = 0
    source_opens: int = 0
    source_bytes: int = 0
    growing_bytes: int = 0
    waits: int = 0
    wait_ns: int = 0

    def since(self, before: ReaderCounts) -> ReaderCounts:
        """Return the difference from earlier counts."""
        return ReaderCounts(*(max(0, now - then) for now, then in zip(self, before, strict=True)))


class ReaderMessage(NamedTuple):
    """A message from a reader.

    Attributes:
        kind: Kind of the message.
        counts: Counters of the reader.
        path: Path of the file; empty for none.
        identity: Identity of the file when it was opened; None for none.
    """

    kind: MessageKind
    counts: ReaderCounts
    path: str
    identity: Identity | None = None

    def encode(self) -> bytes:
        """Return the message in its binary format."""
        identity = bytes(_IDENTITY.size) if self.identity is None else self.identity.encode()
        head = _MESSAGE.pack(_MESSAGE_MAGIC, self.kind, identity, *self.counts)
        return head + os.fsencode(self.path)

    @classmethod
    def decode(cls, data: bytes) -> ReaderMessage:
        """Decode the result of encode().

        Raises:
            ProtocolError: The message is malformed, or the path is not absolute and normal.
        """
        if len(data) < _MESSAGE.size:
            raise ProtocolError("a message is too short")
        magic, kind, said, *counts = _MESSAGE.unpack_from(data)
        if magic != _MESSAGE_MAGIC or kind not in _KINDS:
            raise ProtocolError("malformed message")
        path = os.fsdecode(data[_MESSAGE.size :])
        if path and not is_plain(path):
            raise ProtocolError("a path must be absolute, without '.' and '..'")
        identity = Identity.decode(said) if any(said) else None
        return cls(_KINDS[kind], ReaderCounts(*counts), path, identity)


def is_plain(path: str) -> bool:
    """Return whether a path is absolute, and without empty parts, '.' and '..'."""
    return path.startswith("/") and _ODD_PART.search(path) is None


def unit_of(size: int) -> int:
    """Return the number of bytes for which one byte of the map of a file of this size stands."""
    unit = _LEAST_UNIT
    while size > unit * _MOST_UNITS:
        unit *= 2
    return unit


def name_of(path: str) -> str:
    """Return the name of the partial copy of a file: the FNV-1a hash of its path."""
    code = _FNV_BASIS
    for byte in os.fsencode(path):
        code = (code ^ byte) * _FNV_PRIME & _FNV_MASK
    return f"{code:032x}"


def folder_hash(folder: str) -> int:
    """Return the number that identifies a folder to readers: the 64-bit FNV-1a of its path."""
    code = _FNV64_BASIS
    for byte in os.fsencode(folder):
        code = (code ^ byte) * _FNV64_PRIME & _MASK64
    return code


def state_text(store: Path, sources: tuple[Path, ...]) -> bytes:
    """Return the text of the state file: the paths of the store and of the sources."""
    words = (("store", store), *(("source", each) for each in sources))
    return b"".join(word.encode() + b"=" + os.fsencode(path) + b"\n" for word, path in words)
