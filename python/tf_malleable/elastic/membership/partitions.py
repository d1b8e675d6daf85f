# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Partitions: pairs of processes that cannot reach each other, though both may live. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from math import inf
from typing import Final

from tf_malleable.elastic.membership.participants import Participant

# A link that breaks again this soon, while both ends are alive, is given up.
_SOON_SECONDS: Final = 60.0


class Partitions:
    """Collects what processes report of each other, until take() is called."""

    def __init__(self) -> None:
        self._unreachable: set[frozenset[str]] = set()
        self._lost: set[tuple[str, str]] = set()
        self._broke_at: dict[frozenset[str], float] = {}

    def unreachable(self, one: str, others: Iterable[str]) -> None:
        """Note that a process could not connect to others."""
        self._unreachable |= {frozenset((one, each)) for each in others}

    def lost(self, one: str, others: Iterable[str]) -> None:
        """Note that the links of a process to others have broken."""
        self._lost |= {(one, each) for each in others}

    def stalled(self, here: Collection[Participant], all_: Mapping[str, Participant]) -> None:
        """Note that all processes wait, some for each other: no data pass between them."""
        for one in here:
            self.lost(one.id, one.stalled)
            for other in one.stalled:
                if other in all_ and not all_[other].is_worker:
                    self.lost(other, (one.id,))
        for one in here:
            one.stalled = ()

    def take(self, now: float) -> set[frozenset[str]]:
        """Return the pairs to keep apart, and forget what was reported.

        These are the pairs that could not connect, and those whose link has broken again. A break
        counts only if both ends report it, as a process that loses a link closes its others, too.
        """
        broken = {frozenset(pair) for pair in self._lost if pair[::-1] in self._lost}
        again = {pair for pair in broken if now - self._broke_at.get(pair, -inf) < _SOON_SECONDS}
        self._broke_at |= dict.fromkeys(broken, now)
        found = self._unreachable | again
        self._unreachable, self._lost = set(), set()
        return found
