# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CPU meter: the CPU time of jobs, at a bounded cost for any number of processes."""

from __future__ import annotations

from tf_malleable.controller.jobs.live import LiveJob
from tf_malleable.controller.jobs.part_reader import PartReader
from tf_malleable.linux import procfs

# Number of processes read in one sample, each in up to 0.05 ms, shared by all jobs; and the
# minimum of one job.
_READS_PER_SAMPLE = 40
_LEAST_READS = 4


class Meter:
    """Reads a part of each large job's processes per sample, in turn."""

    def __init__(self) -> None:
        self._reader = PartReader(_cpu_seconds)

    def cpu_seconds(self, live: LiveJob, jobs: int) -> float | None:
        """Return the CPU time of a job's processes, some of it as of earlier samples.

        Args:
            live: The job.
            jobs: Number of jobs that are sampled.

        Returns:
            Sum in seconds; None until every process has been read once.
        """
        if live.group is not None:
            exact = live.group.cpu_seconds()
            if exact is not None:
                return exact
        most = max(_LEAST_READS, _READS_PER_SAMPLE // max(1, jobs))
        self._reader.go_on(live.record.id, live.tree, most)
        return self._reader.total(live.record.id)

    def forget_others(self, jobs: set[str]) -> None:
        """Forget jobs that are not among these."""
        self._reader.forget_others(jobs)


def _cpu_seconds(pid: int) -> float:
    stat = procfs.read_stat(pid)
    return 0.0 if stat is None else stat.cpu_seconds
