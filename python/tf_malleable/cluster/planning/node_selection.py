# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Node selection for new members of a training: as few nodes as possible, the fullest first."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tf_malleable.cluster.planning.capacity import CapacityLedger, Space
from tf_malleable.cluster.planning.cluster_job import ClusterJob
from tf_malleable.cluster.planning.job_sizes import whole


class NodeSelector:
    """Selects nodes for one training.

    Args:
        ledger: Free capacity.
        job: The training.
        is_hard: True if workers of other trainings may be left with their minimum CPUs.
    """

    def __init__(self, ledger: CapacityLedger, job: ClusterJob, *, is_hard: bool = False) -> None:
        self._ledger = ledger
        self._job = job
        self._is_hard = is_hard
        limited = {worker.node for worker in job.placed if worker.cpus_limit is not None}
        self._shunned = job.avoided | limited

    def most_cpus(self, count: int, least: int, most: int) -> int:
        """Return the most CPUs, `least` to `most`, with which `count` workers fit; 0 if none do."""
        if not self._fit(count, least):
            return 0
        if self._fit(count, most):
            return most
        low, high = least, most
        while high - low > 1:
            middle = (low + high) // 2
            if self._fit(count, middle):
                low = middle
            else:
                high = middle
        return low

    def largest(self, count: int, least: int, most: int) -> list[tuple[Space, int]]:
        """Return nodes for `count` workers, or for as many as fit, with the CPUs of each.

        The workers have as many CPUs as possible, each from `least` to `most`.
        """
        memory = self._job.workers.memory
        purse = self._ledger.purse(self._job.namespace)
        if purse is not None:
            count = int(min(count, purse.slots(memory)))
        found: list[tuple[Space, int]] = []
        for space in self._falling(least):
            fit = space.slots(least, memory, is_hard=self._is_hard)
            left = whole(space.cpus if self._is_hard else space.unclaimed)
            while fit and left >= least and len(found) < count:
                found.append((space, min(most, left)))
                left -= found[-1][1]
                fit -= 1
            if len(found) == count:
                break
        return found

    def nodes(
        self, count: int, cpus: float, memory: float, near: Collection[Space] = ()
    ) -> list[Space]:
        """Return a node for each of `count` members, or for as many as fit.

        Args:
            count: Number of members.
            cpus: CPUs of each member.
            memory: Memory of each member, in bytes.
            near: Nodes that already have members of the training: these go first.
        """
        purse = self._ledger.purse(self._job.namespace)
        if purse is not None:
            count = int(min(count, purse.slots(memory)))
        found: list[Space] = []
        used: set[Space] = set()

        def take(space: Space) -> None:
            fit = space.slots(cpus, memory, is_hard=self._is_hard)
            found.extend([space] * min(fit, count - len(found)))
            used.add(space)

        for space in sorted(near, key=lambda space: space.place):
            if space.takes and space not in used and self._may(space):
                take(space)
        emptiest = self._falling(cpus)
        while len(found) < count:
            rest = count - len(found)
            tight = next(
                (
                    space
                    for space in self._rising(cpus * rest)
                    if space not in used
                    and space.slots(cpus, memory, is_hard=self._is_hard) >= rest
                ),
                None,
            )
            chosen = tight or next((space for space in emptiest if space not in used), None)
            if chosen is None:
                break
            take(chosen)
        return found

    def _fit(self, count: int, cpus: int) -> bool:
        """Return whether `count` workers with `cpus` CPUs each fit."""
        memory = self._job.workers.memory
        purse = self._ledger.purse(self._job.namespace)
        if purse is not None and purse.slots(memory) < count:
            return False
        for space in self._falling(cpus):
            count -= space.slots(cpus, memory, is_hard=self._is_hard)
            if count <= 0:
                return True
        return False

    def _may(self, space: Space) -> bool:
        allowed = self._job.allowed
        return space.node not in self._shunned and (allowed is None or space.node in allowed)

    def _rising(self, cpus: float) -> Iterator[Space]:
        return self._eligible(cpus, is_rising=True)

    def _falling(self, cpus: float) -> Iterator[Space]:
        return self._eligible(cpus, is_rising=False)

    def _eligible(self, cpus: float, *, is_rising: bool) -> Iterator[Space]:
        allowed, ledger = self._job.allowed, self._ledger
        if allowed is None and not self._is_hard:
            spaces = ledger.rising(cpus) if is_rising else ledger.falling(cpus)
            if not self._shunned:
                return spaces
            return (space for space in spaces if self._may(space))
        known = (
            ledger.taking()
            if allowed is None
            else [ledger.spaces[name] for name in allowed if name in ledger.spaces]
        )
        chosen = [space for space in known if space.takes and self._may(space)]
        sign = 1 if is_rising else -1
        if self._is_hard:
            # Equal nodes: first that from which others lose the fewest CPUs.
            chosen.sort(key=lambda space: (sign * space.cpus, -space.unclaimed, space.place))
        else:
            chosen.sort(key=lambda space: (sign * space.unclaimed, space.place))
        return iter(chosen)
