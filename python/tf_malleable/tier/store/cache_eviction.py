# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Eviction: which copies are removed when the store is full. No I/O.

A training reads its whole data set once per epoch. Evicting one file of it for another one of
it only churns: with any order of eviction, each copy would be removed before it is read again.
So a full store keeps its copies of the data set that is being read, and the rest of it is read
from the source. Only copies of other data sets are evicted, the least recently read data set
first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class StoredCopy:
    """A complete copy, with the properties that matter for eviction.

    Attributes:
        path: Id of the copy; the store passes its key.
        dataset: Data set of the copy.
        size: Size on disk in bytes.
        read_at: Time of the last read.
        is_sole: Whether no other node is known to have a copy of the file.
    """

    path: str
    dataset: str
    size: int
    read_at: float
    is_sole: bool = False


def to_evict(
    copies: Iterable[StoredCopy],
    dataset: str,
    bytes_needed: int,
    is_open: Callable[[str], bool] = lambda path: False,
) -> tuple[str, ...]:
    """Return the paths of the copies to evict; empty if they would not free enough bytes.

    Args:
        copies: All complete copies.
        dataset: Data set for which room is needed; its own copies are not evicted.
        bytes_needed: Number of bytes to free.
        is_open: Function that returns whether a process has a copy open, which then stays.
    """
    if bytes_needed <= 0:
        return ()
    copies = list(copies)
    read_at: dict[str, float] = {}
    for copy in copies:
        read_at[copy.dataset] = max(copy.read_at, read_at.get(copy.dataset, copy.read_at))
    candidates = [copy for copy in copies if copy.dataset != dataset]
    if sum(copy.size for copy in candidates) < bytes_needed:
        return ()
    candidates.sort(
        key=lambda copy: (copy.is_sole, read_at[copy.dataset], copy.dataset, copy.read_at)
    )
    chosen, found = [], 0
    for copy in candidates:
        if is_open(copy.path):
            continue
        chosen.append(copy.path)
        found += copy.size
        if found >= bytes_needed:
            return tuple(chosen)
    return ()
