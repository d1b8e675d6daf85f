# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The memory of jobs, at a bounded cost however many processes they have."""

from __future__ import annotations

from collections.abc import Mapping

from tf_malleable.controller.jobs.live import LiveJob
from tf_malleable.linux.memory import process_memory

# Processes read in one sample, each in about 0.01 ms, and the fewest of one job.
_READS_PER_SAMPLE = 40
_LEAST_READS = 4


class MemoryMeter:
    """Reads the memory of some jobs per sample, and of a part of each large one, in turn."""

    def __init__(self) -> None:
        self._bytes: dict[str, dict[int, int]] = {}
        self._next: dict[str, int] = {}
        self._turn = 0

    def look(self, jobs: Mapping[str, LiveJob]) -> None:
        """Measure the next few of these jobs that have started."""
        for job in self._next.keys() - jobs.keys():
            self._bytes.pop(job, None)
            del self._next[job]
        started = [live for live in jobs.values() if live.record.started is not None]
        reads = 0
        for _ in range(len(started)):
            self._turn += 1
            reads += self._measure(started[self._turn % len(started)], _READS_PER_SAMPLE - reads)
            if reads > _READS_PER_SAMPLE - _LEAST_READS:
                return

    def _measure(self, live: LiveJob, most: int) -> int:
        """Read a job's memory, or a part of it; return how many files that took."""
        counted = None if live.memory_group is None else live.memory_group.used()
        if counted is not None:
            live.note_memory(counted)
            return 1
        job, tree = live.record.id, live.tree
        known = self._bytes.get(job, {})
        known = {pid: known[pid] for pid in tree if pid in known}
        reads, first = min(len(tree), most), self._next.get(job, 0)
        for index in range(first, first + reads):
            pid = tree[index % len(tree)]
            known[pid] = process_memory(pid)
        self._next[job] = (first + reads) % max(1, len(tree))
        self._bytes[job] = known
        # Once all were read; some of it is as of earlier samples.
        if tree and len(known) == len(tree):
            live.note_memory(sum(known.values()))
        return reads
