# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Part reader: sums up a value over the processes of a job, a few of them at a time."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field


@dataclass
class _Part:
    """Values of one job.

    Attributes:
        pids: Pids of the job's processes.
        values: Value by pid, of the processes that were read.
        next: Index in `pids` of the next process to read.
    """

    pids: list[int] = field(default_factory=list)
    values: dict[int, float] = field(default_factory=dict)
    next: int = 0


class PartReader:
    """Reads a value of each process; for jobs with many processes, of some in each round.

    Args:
        read: Returns the value of a process, by pid; 0 if it has ended.
    """

    def __init__(self, read: Callable[[int], float]) -> None:
        self._read = read
        self._parts: dict[str, _Part] = {}

    def go_on(self, job: str, tree: list[int], most: int) -> int:
        """Read the next processes of a job; return how many were read.

        Args:
            job: Id of the job.
            tree: Pids of the job's processes; must be a new list if these have changed.
            most: Maximum number of processes to read.
        """
        part = self._parts.setdefault(job, _Part())
        if part.pids is not tree:
            values = part.values
            part.pids, part.values = tree, {pid: values[pid] for pid in tree if pid in values}
        reads = min(len(tree), most)
        for index in range(part.next, part.next + reads):
            pid = tree[index % len(tree)]
            part.values[pid] = self._read(pid)
        part.next = (part.next + reads) % max(1, len(tree))
        return reads

    def total(self, job: str) -> float | None:
        """Return the sum over a job's processes, some of it as of earlier rounds.

        The result is None until each process has been read once.
        """
        part = self._parts.get(job)
        if part is None or not part.pids or len(part.values) < len(part.pids):
            return None
        return sum(part.values.values())

    def forget_others(self, jobs: Collection[str]) -> None:
        """Forget jobs that are not among these."""
        for job in self._parts.keys() - jobs:
            del self._parts[job]
