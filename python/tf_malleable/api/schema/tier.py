# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Control messages of a node's data tier: requests of people, and the answers."""

from __future__ import annotations

from typing import Final

import msgspec

STATUS: Final = "/v1/status"
WARM: Final = "/v1/warm"
DROP: Final = "/v1/drop"
CHECK: Final = "/v1/check"
WHY: Final = "/v1/why"


class PathsMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Absolute paths of files or folders of the source to warm, drop or check; none for all."""

    paths: tuple[str, ...] = ()


class NodeState(msgspec.Struct, frozen=True):
    """State of a peer, as this node sees it.

    Attributes:
        node: Address of the peer.
        is_live: True if requests are sent to the peer.
        opened: Number of times that the peer's circuit breaker has opened.
    """

    node: str
    is_live: bool
    opened: int


class TierStatus(msgspec.Struct, frozen=True):
    """The state of a node's tier.

    Attributes:
        node: Address of this node for its peers; empty without peers.
        sources: Folders whose files are copied.
        store: Folder of the copies.
        capacity: Bytes that copies may take.
        used: Bytes that copies take, including the final size of growing ones.
        copies: Number of complete copies.
        growing: Number of copies that are being made.
        unverified: Number of copies from before the last boot that have not been used since.
        records: Number of files whose home is this node.
        problem: Reason why no copies are currently made; empty if they are.
        nodes: The peers.
        counters: Counters since the start, by name.
        warming: Files and bytes to read in advance, and those of them that are done.
        seconds_left: Estimated seconds until all of them are done; None if unknown.
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
    """Result of a request.

    Attributes:
        files: Number of files affected.
        size: Number of bytes affected.
        bad: Copies with wrong contents, which have been dropped.
    """

    files: int = 0
    size: int = 0
    bad: tuple[str, ...] = ()


class Why(msgspec.Struct, frozen=True):
    """Reason why a file is read from its source, or from a copy.

    Attributes:
        is_copied: True if there is a complete copy that is used.
        sentence: The reason, in one sentence.
    """

    is_copied: bool
    sentence: str
