# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What is still free on each node, and of each namespace's quota, while a plan is made.

It is counted twice: what is free if every worker has its fewest CPUs, which may be used if a
training could not run otherwise; and what is free if every worker has what it is to get.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from math import inf

from tf_malleable.cluster.planning.job_sizes import ROUNDING, whole
from tf_malleable.cluster.planning.node_capacity import NamespaceQuota, NodeCapacity


class Space:
    """A node.

    Attributes:
        place: Its place among all nodes, by name.
        node: Its name.
        takes: New members may go there.
        cpus: CPUs that are free if all workers there have their fewest.
        unclaimed: CPUs that are free if all workers there have what they are to get; negative if
            these are too many.
        memory: Free memory in bytes.
        pods: How many more members fit.
    """

    __slots__ = ("cpus", "memory", "node", "place", "pods", "takes", "unclaimed")

    def __init__(self, place: int, room: NodeCapacity) -> None:
        self.place = place
        self.node = room.node
        self.takes = room.is_open
        self.cpus = self.unclaimed = max(0.0, room.cpus) if room.ready else 0.0
        self.memory = inf if room.memory is None else room.memory
        self.pods = room.pods if room.ready else 0

    def slots(self, cpus: float, memory: float, *, is_hard: bool = False) -> int:
        """Return how many members of this size fit."""
        # Plans of a large cluster ask this a hundred thousand times: so without calls.
        free = self.cpus
        if not is_hard and self.unclaimed < free:
            free = self.unclaimed
        free += ROUNDING
        if free < cpus:
            return 0
        count = int(free // cpus)
        if self.pods < count:
            count = self.pods
        if memory and self.memory < inf and self.memory // memory < count:
            count = int(self.memory // memory)
        return count if count > 0 else 0


class QuotaBalance:
    """What is left of a namespace's quota of memory and pods."""

    __slots__ = ("memory", "pods")

    def __init__(self, quota: NamespaceQuota) -> None:
        self.memory = quota.memory
        self.pods = quota.pods

    def slots(self, memory: float) -> float:
        """Return how many members of this size fit."""
        return max(0.0, min(self.pods, self.memory // memory if memory else inf))


class CapacityLedger:
    """All nodes and quotas.

    Attributes:
        spaces: By name of the node.
    """

    def __init__(self, rooms: Sequence[NodeCapacity], quotas: Mapping[str, NamespaceQuota]) -> None:
        ordered = sorted(rooms, key=lambda room: room.node)
        self.spaces = {room.node: Space(place, room) for place, room in enumerate(ordered)}
        self._all = list(self.spaces.values())
        self._purses = {name: QuotaBalance(quota) for name, quota in quotas.items()}
        # Places of the nodes that new members may go to, by their unclaimed CPUs.
        self._shelves: dict[int, list[int]] = {}
        for space in self._all:
            if space.takes:
                self._shelves.setdefault(whole(space.unclaimed), []).append(space.place)

    def purse(self, namespace: str) -> QuotaBalance | None:
        """Return what is left of a namespace's quota; None if it has none."""
        return self._purses.get(namespace)

    def claim(
        self, space: Space, namespace: str, least: float, wanted: float, memory: float
    ) -> None:
        """Note a member.

        Args:
            space: Where it is.
            namespace: Whose it is.
            least: The fewest CPUs that it has.
            wanted: CPUs that it is to get.
            memory: What it requests, in bytes.
        """
        self._note(space, namespace, least, wanted, memory, 1)

    def release(
        self, space: Space, namespace: str, least: float, wanted: float, memory: float
    ) -> None:
        """Take back what claim() noted."""
        self._note(space, namespace, -least, -wanted, -memory, -1)

    def claim_more(self, space: Space, wanted: float) -> None:
        """Note that members on a node are to get so many more CPUs, or fewer."""
        before = whole(space.unclaimed)
        space.unclaimed -= wanted
        self._shelve(space, before)

    def rising(self, cpus: float) -> Iterator[Space]:
        """Return the nodes with so many unclaimed CPUs, the fullest first.

        To be used before anything else is claimed.
        """
        for size in sorted(size for size in self._shelves if size + 1 > cpus):
            for place in self._shelves[size]:
                yield self._all[place]

    def falling(self, cpus: float) -> Iterator[Space]:
        """Return the nodes with so many unclaimed CPUs, the emptiest first; see rising()."""
        for size in sorted((size for size in self._shelves if size + 1 > cpus), reverse=True):
            for place in self._shelves[size]:
                yield self._all[place]

    def taking(self) -> list[Space]:
        """Return the nodes that new members may go to."""
        return [space for space in self._all if space.takes]

    def _note(
        self,
        space: Space,
        namespace: str,
        least: float,
        wanted: float,
        memory: float,
        pods: int,
    ) -> None:
        before = whole(space.unclaimed)
        space.cpus -= least
        space.unclaimed -= wanted
        space.memory -= memory
        space.pods -= pods
        self._shelve(space, before)
        purse = self._purses.get(namespace)
        if purse is not None:
            purse.memory -= memory
            purse.pods -= pods

    def _shelve(self, space: Space, before: int) -> None:
        after = whole(space.unclaimed)
        if space.takes and after != before:
            shelf = self._shelves[before]
            del shelf[bisect_left(shelf, space.place)]
            if not shelf:
                del self._shelves[before]
            insort(self._shelves.setdefault(after, []), space.place)
