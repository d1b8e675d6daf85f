# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Meters of CPU time and memory of jobs, at a bounded cost for any number of processes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from tf_malleable.controller.jobs.live_job import LiveJob
from tf_malleable.linux.memory import process_memory
from tf_malleable.linux.processes import procfs

_CPU_READS_PER_SAMPLE = 40
_MEMORY_READS_PER_SAMPLE = 20
_LEAST_READS = 4


@dataclass
class _JobValues:
    """Values of one job.

    Attributes:
        pids: Pids of the job's processes.
        values: Value by pid, of the processes that were read.
        next: Index in `pids` of the next process to read.
    """

    pids: list[int] = field(default_factory=list)
    values: dict[int, float] = field(default_factory=dict)
    next: int = 0


class ProcessSums:
    """Reads a value of each process; for jobs with many processes, of some in each round.

    Args:
        read: Returns the value of a process, by pid; 0 if it has ended.
    """

    def __init__(self, read: Callable[[int], float]) -> None:
        self._read = read
        self._jobs: dict[str, _JobValues] = {}

    def go_on(self, job: str, tree: list[int], most: int) -> int:
        """Read the next processes of a job; return how many were read.

        Args:
            job: Id of the job.
            tree: Pids of the job's processes; must be a new list if these have changed.
            most: Maximum number of processes to read.
        """
        found = self._jobs.setdefault(job, _JobValues())
        if found.pids is not tree:
            values = found.values
            found.pids, found.values = tree, {pid: values[pid] for pid in tree if pid in values}
        reads = min(len(tree), most)
        for index in range(found.next, found.next + reads):
            pid = tree[index % len(tree)]
            found.values[pid] = self._read(pid)
        found.next = (found.next + reads) % max(1, len(tree))
        return reads

    def total(self, job: str) -> float | None:
        """Return the sum over a job's processes, some of it as of earlier rounds.

        The result is None until each process has been read once.
        """
        found = self._jobs.get(job)
        if found is None or not found.pids or len(found.values) < len(found.pids):
            return None
        return sum(found.values.values())

    def forget_others(self, jobs: Collection[str]) -> None:
        """Forget jobs that are not among these."""
        for job in self._jobs.keys() - jobs:
            del self._jobs[job]


# Number of processes read in one sample, each in up to 0.05 ms, shared by all jobs; and the
# minimum of one job.


class CpuMeter:
    """Reads a part of each large job's processes per sample, in turn."""

    def __init__(self) -> None:
        self._reader = ProcessSums(_cpu_seconds)

    def cpu_seconds(self, live: LiveJob, jobs: int) -> float | None:
        """Return the CPU time of a job's processes, some of it as of earlier samples.

        Args:
            live: The job.
            jobs: Number of jobs that are sampled.

        Returns:
            Sum in seconds; None until every process has been read once.
        """
        if live.processes.group is not None:
            exact = live.processes.group.cpu_seconds()
            if exact is not None:
                return exact
        most = max(_LEAST_READS, _CPU_READS_PER_SAMPLE // max(1, jobs))
        self._reader.go_on(live.record.id, live.processes.tree, most)
        return self._reader.total(live.record.id)

    def forget_others(self, jobs: set[str]) -> None:
        """Forget jobs that are not among these."""
        self._reader.forget_others(jobs)


def _cpu_seconds(pid: int) -> float:
    stat = procfs.read_stat(pid)
    return 0.0 if stat is None else stat.cpu_seconds


# Number of processes read in one sample, each in up to 0.05 ms, and the minimum of one job.


class MemoryMeter:
    """Reads the memory of some jobs per sample, and of a part of each large one, in turn."""

    def __init__(self) -> None:
        self._reader = ProcessSums(process_memory)
        self._turn = 0

    def look(self, jobs: Mapping[str, LiveJob]) -> None:
        """Measure the next few of these jobs that have started."""
        self._reader.forget_others(jobs.keys())
        started = [live for live in jobs.values() if live.record.started is not None]
        reads = 0
        for _ in range(len(started)):
            self._turn += 1
            reads += self._measure(
                started[self._turn % len(started)], _MEMORY_READS_PER_SAMPLE - reads
            )
            if reads > _MEMORY_READS_PER_SAMPLE - _LEAST_READS:
                return

    def _measure(self, live: LiveJob, most: int) -> int:
        """Read a job's memory, or a part of it; return the number of files read."""
        counted = (
            None if live.processes.memory_group is None else live.processes.memory_group.used()
        )
        if counted is not None:
            live.measured.note_memory(counted)
            return 1
        reads = self._reader.go_on(live.record.id, live.processes.tree, most)
        total = self._reader.total(live.record.id)
        if total is not None:
            live.measured.note_memory(int(total))
        return reads
