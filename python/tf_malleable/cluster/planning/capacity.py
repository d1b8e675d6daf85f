# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Capacity of the nodes and quotas, and the ledger of what is free of it during planning.

Free CPUs are counted twice: those that are free if every worker has its minimum, which may be used
if a training could not run otherwise; and those that are free if every worker has what it is to
get.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from tf_malleable.cluster.planning.job_sizes import ROUNDING, whole


@dataclass(frozen=True)
class NodeCapacity:
    """Capacity of a node for the members of all elastic trainings together.

    It is the node's allocatable amount less the requests of other pods there. The requests of
    trainings' workers and servers are not subtracted, as all of that is shared out anew. The
    requests of others' pending pods that would fit only there may be subtracted.

    Attributes:
        node: Unique name of the node.
        cpus: CPUs; workers get whole ones. A negative number counts as 0.
        memory: Memory, in bytes; None for any amount.
        pods: Maximum number of members.
        ready: True if members can run there. If not, members there count as lost.
        leaving: True if the node is cordoned, drained or tainted: nothing new goes there, and
            members there leave as soon as there is capacity for them elsewhere.
    """

    node: str
    cpus: float
    memory: float | None = None
    pods: int = 110
    ready: bool = True
    leaving: bool = False

    @property
    def is_open(self) -> bool:
        """Whether new members may go there."""
        return self.ready and not self.leaving


@dataclass(frozen=True)
class NamespaceQuota:
    """Quota of a namespace for the members of all its trainings together.

    It is the namespace's ResourceQuota less the requests of its other pods.

    Attributes:
        cpus: CPUs.
        memory: Memory, in bytes.
        pods: Number of pods.
    """

    cpus: float = inf
    memory: float = inf
    pods: float = inf


class Space:
    """Free capacity of a node.

    Attributes:
        place: Index of the node among all nodes, sorted by name.
        node: Name of the node.
        takes: True if new members may go there.
        cpus: CPUs that are free if all workers there have their minimum.
        unclaimed: CPUs that are free if all workers there have what they are to get; negative if
            these exceed the node.
        memory: Free memory, in bytes.
        pods: Number of further members that fit.
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
        """Return how many members of this size fit.

        Args:
            cpus: CPUs of a member.
            memory: Memory of a member, in bytes.
            is_hard: True if all other workers there may be left with their minimum CPUs.
        """
        # Plans of a large cluster ask this a hundred thousand times, so it makes no calls.
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
    """Rest of a namespace's quota of memory, in bytes, and pods."""

    __slots__ = ("memory", "pods")

    def __init__(self, quota: NamespaceQuota) -> None:
        self.memory = quota.memory
        self.pods = quota.pods

    def slots(self, memory: float) -> float:
        """Return how many members with this memory, in bytes, fit."""
        return max(0.0, min(self.pods, self.memory // memory if memory else inf))


class CapacityLedger:
    """Free capacity of all nodes and quotas.

    Attributes:
        spaces: Nodes by name.
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
        """Return the rest of a namespace's quota; None if it has no quota."""
        return self._purses.get(namespace)

    def claim(
        self, space: Space, namespace: str, least: float, wanted: float, memory: float
    ) -> None:
        """Claim capacity for a member.

        Args:
            space: Node of the member.
            namespace: Namespace of the member.
            least: Minimum CPUs of the member.
            wanted: CPUs that the member is to get.
            memory: Memory that the member requests, in bytes.
        """
        self._note(space, namespace, least, wanted, memory, 1)

    def release(
        self, space: Space, namespace: str, least: float, wanted: float, memory: float
    ) -> None:
        """Release what claim() has claimed with the same arguments."""
        self._note(space, namespace, -least, -wanted, -memory, -1)

    def claim_more(self, space: Space, wanted: float) -> None:
        """Claim more CPUs for the members on a node, or fewer if `wanted` is negative."""
        before = whole(space.unclaimed)
        space.unclaimed -= wanted
        self._shelve(space, before)

    def rising(self, cpus: float) -> Iterator[Space]:
        """Yield the nodes with at least this many unclaimed CPUs, the fullest first.

        A fraction of a CPU is not compared. The iterator is valid until the next claim.
        """
        for size in sorted(size for size in self._shelves if size + 1 > cpus):
            for place in self._shelves[size]:
                yield self._all[place]

    def falling(self, cpus: float) -> Iterator[Space]:
        """Yield the nodes with at least this many unclaimed CPUs, emptiest first; see rising()."""
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
