# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Allreduce: sums of the vectors of all members, within one generation.

Each owner (each member, or each server if there are any) has a slice of the vector. Members send
it their parts of that slice; it adds them along the reduction tree and sends the sum back. This is
reduce-scatter and all-gather in chunks, so that the first sums return while the last parts are
still on their way. One thread does all of it, between poll() and poll(): on the cores that a
training has to spare, more threads would only take turns.

With each step, a member names the next generation for which all are prepared, as far as it has
heard, and every owner repeats the greatest number that any member has named. As all owners hear
from all members, all that complete a step agree on which generation follows it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tf_malleable.elastic.allreduce.allreduce_step import AllreduceStep, Summed
from tf_malleable.elastic.allreduce.reduction_tree import Node
from tf_malleable.elastic.generation import Generation
from tf_malleable.elastic.links.frames import Link

if TYPE_CHECKING:
    from tf_malleable.elastic.allreduce.allreduce_step import BufferAllocator, Vector


class Allreduce:
    """Allreduce of one generation, as seen by one of its processes."""

    def __init__(
        self, generation: Generation, me: str, links: Mapping[str, Link], aborted: int
    ) -> None:
        """Create the allreduce of one generation.

        Args:
            generation: The generation.
            me: Id of this process.
            links: Links to all owners if this is a member, and to all members if it is an owner.
            aborted: File descriptor that becomes readable once the generation is over.
        """
        self.generation, self.me = generation, me
        self.links = links
        self.aborted = aborted
        self.is_first = True
        self._pending: dict[int, int] = {}
        self._progress_at = 0.0
        self._inboxes: dict[str, Vector] = {}

    def sum(
        self, step: int | None, parts: Mapping[Node, Vector], proposed: int, room: BufferAllocator
    ) -> Summed:
        """Take part in a step; return its sum.

        Args:
            step: Number of the step; None for a server, which learns it from the members.
            parts: This member's partial sums; they must not change meanwhile.
            proposed: Next generation for which all are prepared; 0 if there is none.
            room: Returns a vector of a length and type, for the sum or a server's slice.

        Raises:
            LinkError: A process of the generation is gone.
            AbortedError: The generation is over.
            MeshError: Another member runs a different computation.
        """
        summed = AllreduceStep(self, step, parts, proposed, room).complete()
        self.is_first = False
        return summed

    def waits_for(self, seconds: float) -> tuple[str, ...]:
        """Return the peers that a step waits for, if no data has moved for so many seconds."""
        if not any(self._pending.values()) or time.monotonic() - self._progress_at < seconds:
            return ()
        pending = self._pending.copy()
        return tuple(each.id for each in self.links.values() if pending.get(each.socket.fileno()))

    def progress(self, pending: dict[int, int]) -> None:
        """Note that data have moved, and the poll() events that each socket waits for."""
        self._pending, self._progress_at = pending, time.monotonic()

    def inbox(self, sender: str, count: int, words: int, type_: str) -> Vector:
        """Return the buffer for a sender's parts; it grows, and its memory stays the same."""
        import numpy as np

        size = count * words * np.dtype(type_).itemsize
        known = self._inboxes.get(sender)
        if known is None or len(known) < size:
            self._inboxes[sender] = known = np.empty(size, np.uint8)
        return known[:size].view(type_).reshape(count, words)
