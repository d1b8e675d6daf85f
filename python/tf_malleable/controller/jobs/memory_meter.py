# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Memory meter: the memory use of jobs, at a bounded cost for any number of processes."""

from __future__ import annotations

from collections.abc import Mapping

from tf_malleable.controller.jobs.live import LiveJob
from tf_malleable.controller.jobs.part_reader import PartReader
from tf_malleable.linux.memory import process_memory

# Number of processes read in one sample, each in up to 0.05 ms, and the minimum of one job.
_READS_PER_SAMPLE = 20
_LEAST_READS = 4


class MemoryMeter:
    """Reads the memory of some jobs per sample, and of a part of each large one, in turn."""

    def __init__(self) -> None:
        self._reader = PartReader(process_memory)
        self._turn = 0

    def look(self, jobs: Mapping[str, LiveJob]) -> None:
        """Measure the next few of these jobs that have started."""
        self._reader.forget_others(jobs.keys())
        started = [live for live in jobs.values() if live.record.started is not None]
        reads = 0
        for _ in range(len(started)):
            self._turn += 1
            reads += self._measure(started[self._turn % len(started)], _READS_PER_SAMPLE - reads)
            if reads > _READS_PER_SAMPLE - _LEAST_READS:
                return

    def _measure(self, live: LiveJob, most: int) -> int:
        """Read a job's memory, or a part of it; return the number of files read."""
        counted = None if live.memory_group is None else live.memory_group.used()
        if counted is not None:
            live.note_memory(counted)
            return 1
        reads = self._reader.go_on(live.record.id, live.tree, most)
        total = self._reader.total(live.record.id)
        if total is not None:
            live.note_memory(int(total))
        return reads
