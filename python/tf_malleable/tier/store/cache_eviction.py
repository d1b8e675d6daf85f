# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Which copies go when the store is full. Pure.

A training reads all of its data set once an epoch. To evict one file of it for another one of
it only churns: with any order of eviction each copy would go before it is read again. So a full
store keeps what it has of the data set that is being read, and the rest of it is read from the
source; only copies of other data sets go, those first whose data set was not read for longest.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class StoredCopy:
    """What is decided about.

    Attributes:
        path: Of the copy, below the store.
        dataset: The data set it is of.
        size: Bytes that it takes on the disk.
        read_at: When it was read last.
        is_open: Somebody has it open.
        is_sole: No other node is known to have one.
    """

    path: str
    dataset: str
    size: int
    read_at: float
    is_open: bool = False
    is_sole: bool = False


def to_evict(copies: Iterable[StoredCopy], dataset: str, bytes_needed: int) -> tuple[str, ...]:
    """Return the paths of the copies that make room; none if not enough of it can be made.

    Args:
        copies: All that there are.
        dataset: For which room is made. None of its own copies go.
        bytes_needed: How much.
    """
    if bytes_needed <= 0:
        return ()
    copies = list(copies)
    read_at: dict[str, float] = {}
    for copy in copies:
        read_at[copy.dataset] = max(copy.read_at, read_at.get(copy.dataset, copy.read_at))
    candidates = [copy for copy in copies if copy.dataset != dataset and not copy.is_open]
    candidates.sort(
        key=lambda copy: (copy.is_sole, read_at[copy.dataset], copy.dataset, copy.read_at)
    )
    chosen, found = [], 0
    for copy in candidates:
        chosen.append(copy.path)
        found += copy.size
        if found >= bytes_needed:
            return tuple(chosen)
    return ()
