# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a home remembers of its files: who reads each one from the source, and who has a copy.

Pure: the caller says what time it is. Nothing here is on disk: after a restart the nodes say
again what they have, and at worst a file is read from the source once more.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

LEASE_SECONDS: Final = 10.0
"""For how long a claim holds of which the claimer says nothing more."""


@dataclass(frozen=True)
class Location:
    """What a home answers to a node that wants a file.

    Attributes:
        is_yours: The node has the claim: it reads the file from the source.
        holders: The nodes that have a copy, or else the one whose copy is growing.
        is_whole: The holders' copies are complete.
    """

    is_yours: bool
    holders: tuple[str, ...] = ()
    is_whole: bool = False


@dataclass
class _FileRecord:
    """Of one version of a file."""

    version: str
    holders: list[str] = field(default_factory=list)
    claimer: str = ""
    until: float = 0.0


class Records:
    """The records of the files whose home this node is."""

    def __init__(self) -> None:
        """Know nothing yet."""
        self._files: dict[str, _FileRecord] = {}

    def __len__(self) -> int:
        return len(self._files)

    def ask(self, key: str, version: str, node: str, now: float) -> Location:
        """Say where a node gets a file, and give it the claim if nobody else has one.

        Args:
            key: Of the file.
            version: As the node sees it in the source. Another one replaces what is known; empty if
                it has not looked, and takes whichever there is.
            node: Who asks.
            now: The time in seconds, of any clock that only goes forward.
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
        """Note that a node has a complete copy; ends its claim."""
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
        """Return whether a node's copy is the only one that is known here."""
        record = self._files.get(key)
        return record is not None and record.holders == [node]

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        for key in [
            key
            for key, record in self._files.items()
            if record.claimer == node or node in record.holders
        ]:
            self.release(key, node)


def _agree(one: str, other: str) -> bool:
    return one == other or not one or not other
