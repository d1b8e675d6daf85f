# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The CPU time of jobs, at a bounded cost however many processes they have."""

from __future__ import annotations

from tf_malleable.controller.jobs.live import LiveJob
from tf_malleable.linux import procfs

# Processes read in one sample, each in about 0.015 ms, shared by all jobs; and the fewest
# of one job.
_READS_PER_SAMPLE = 100
_LEAST_READS = 4


class Meter:
    """Reads a part of each large job's processes per sample, in turn."""

    def __init__(self) -> None:
        self._seconds: dict[str, dict[int, float]] = {}
        self._next: dict[str, int] = {}

    def cpu_seconds(self, live: LiveJob, jobs: int) -> float | None:
        """Return the CPU time of a job's processes, some of it as of earlier samples.

        Args:
            live: The job.
            jobs: Number of jobs that are sampled.

        Returns:
            The sum in seconds; None until every process has been read once.
        """
        if live.group is not None:
            exact = live.group.cpu_seconds()
            if exact is not None:
                return exact
        job, tree = live.record.id, live.tree
        known = self._seconds.get(job, {})
        known = {pid: known[pid] for pid in tree if pid in known}
        reads = min(len(tree), max(_LEAST_READS, _READS_PER_SAMPLE // max(1, jobs)))
        first = self._next.get(job, 0)
        for index in range(first, first + reads):
            pid = tree[index % len(tree)]
            stat = procfs.read_stat(pid)
            known[pid] = 0.0 if stat is None else stat.cpu_seconds
        self._next[job] = (first + reads) % max(1, len(tree))
        self._seconds[job] = known
        return sum(known.values()) if len(known) == len(tree) else None

    def forget_others(self, jobs: set[str]) -> None:
        """Forget jobs that are not among these."""
        for job in self._seconds.keys() - jobs:
            del self._seconds[job]
            del self._next[job]
