# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What people ask the tier of a node, and what it answers."""

from __future__ import annotations

from typing import Final

import msgspec

STATUS: Final = "/v1/status"
WARM: Final = "/v1/warm"
DROP: Final = "/v1/drop"
CHECK: Final = "/v1/check"
WHY: Final = "/v1/why"


class PathsMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Files or folders of the source, absolute, to warm, drop or check; none for all."""

    paths: tuple[str, ...] = ()


class NodeState(msgspec.Struct, frozen=True):
    """Another node, as this one sees it.

    Attributes:
        node: Its address.
        is_live: It is asked.
        opened: How often it has been left alone for a while.
    """

    node: str
    is_live: bool
    opened: int


class TierStatus(msgspec.Struct, frozen=True):
    """The state of a node's tier.

    Attributes:
        node: Its address for other nodes; empty without.
        sources: The folders whose files are copied.
        store: The folder of the copies.
        capacity: Bytes that copies may take.
        used: Bytes that they take.
        copies: How many there are.
        growing: How many are being made.
        unverified: How many are from before the last start of the machine, and not used yet.
        records: How many files' home this node is.
        problem: Why no copies are made at present; empty if they are.
        nodes: The other nodes.
        counters: What has been counted since the start, by name.
        warming: Files and bytes that are to be read in advance, and those of them that are done.
        seconds_left: Until all of them are, as far as one can tell.
    """

    node: str
    sources: tuple[str, ...]
    store: str
    capacity: int
    used: int
    copies: int
    growing: int
    unverified: int
    records: int
    problem: str
    nodes: tuple[NodeState, ...]
    counters: dict[str, float]
    warming: tuple[int, int, int, int] = (0, 0, 0, 0)
    seconds_left: float | None = None


class TierDone(msgspec.Struct, frozen=True):
    """What came of a request.

    Attributes:
        files: How many files it was about.
        size: How many bytes.
        bad: Copies that were not what they should be, and have been dropped.
    """

    files: int = 0
    size: int = 0
    bad: tuple[str, ...] = ()


class Why(msgspec.Struct, frozen=True):
    """Why a file is read from where it is.

    Attributes:
        is_copied: There is a complete copy that is used.
        sentence: The reason.
    """

    is_copied: bool
    sentence: str
