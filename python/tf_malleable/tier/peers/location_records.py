# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Location records of a home: which node reads a file from the source, and which have copies.

No I/O: the caller passes the current time. The records are only in memory: after a restart, the
nodes announce their copies again, and at worst a file is read from the source once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

LEASE_SECONDS: Final = 10.0
"""Lifetime of a claim that its node does not renew."""


@dataclass(frozen=True)
class Location:
    """Answer of a home to a node that asks for a file.

    Attributes:
        is_yours: Whether the asking node has the claim: it reads the file from the source.
        holders: Nodes with a copy, or else the node whose partial copy is growing.
        is_whole: Whether the copies of the holders are complete.
    """

    is_yours: bool
    holders: tuple[str, ...] = ()
    is_whole: bool = False


@dataclass
class _FileRecord:
    """Record of one version of a file."""

    version: str
    holders: list[str] = field(default_factory=list)
    claimer: str = ""
    until: float = 0.0


class Records:
    """The records of the files whose home this node is."""

    def __init__(self) -> None:
        self._files: dict[str, _FileRecord] = {}

    def __len__(self) -> int:
        return len(self._files)

    def ask(self, key: str, version: str, node: str, now: float) -> Location:
        """Return the location of a file, and give the node the claim if no other node has it.

        Args:
            key: Key of the file.
            version: Version that the node sees in the source; a different one replaces the
                record. Empty if the node has not looked and accepts any version.
            node: Asking node.
            now: Current time of a monotonic clock, in seconds.
        """
        record = self._files.get(key)
        if record is None or not _agree(record.version, version):
            record = self._files[key] = _FileRecord(version)
        record.version = record.version or version
        holders = tuple(each for each in record.holders if each != node)
        if holders:
            return Location(False, holders, True)
        if record.claimer not in ("", node) and now < record.until:
            return Location(False, (record.claimer,), False)
        record.claimer, record.until = node, now + LEASE_SECONDS
        return Location(True)

    def hold(self, key: str, version: str, node: str) -> None:
        """Note that a node has a complete copy; this ends its claim."""
        record = self._files.get(key)
        if record is None or not _agree(record.version, version):
            record = self._files[key] = _FileRecord(version)
        record.version = version
        if node not in record.holders:
            record.holders.append(node)
        if record.claimer == node:
            record.claimer = ""

    def keep_claims(self, keys: Iterable[str], node: str, now: float) -> None:
        """Note that a node still reads these files from the source."""
        for key in keys:
            record = self._files.get(key)
            if record is not None and record.claimer == node:
                record.until = now + LEASE_SECONDS

    def release(self, key: str, node: str) -> None:
        """Note that a node has no copy, and does not make one."""
        record = self._files.get(key)
        if record is None:
            return
        if record.claimer == node:
            record.claimer = ""
        if node in record.holders:
            record.holders.remove(node)
        if not record.holders and not record.claimer:
            del self._files[key]

    def is_sole(self, key: str, node: str) -> bool:
        """Return whether the copy of a node is the only one in the records."""
        record = self._files.get(key)
        return record is not None and record.holders == [node]

    def forget(self, node: str) -> None:
        """Remove all copies and claims of a node that is gone."""
        for key in [
            key
            for key, record in self._files.items()
            if record.claimer == node or node in record.holders
        ]:
            self.release(key, node)


def _agree(one: str, other: str) -> bool:
    return one == other or not one or not other
