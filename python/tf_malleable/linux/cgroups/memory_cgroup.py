# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Memory accounting and memory limit of one job, with cgroups.

With v2, the job's own cgroup is used if the memory controller is enabled for the children of
its parent. With v1, memory has a separate hierarchy, in which a cgroup is created.
"""

from __future__ import annotations

from pathlib import Path

from tf_malleable.linux import files
from tf_malleable.linux.cgroups import job_cgroup
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.model import ProcessId


class MemoryGroup:
    """The cgroup that accounts for the memory of a job.

    Attributes:
        folder: Folder of the cgroup.
    """

    def __init__(self, folder: Path, *, unified: bool) -> None:
        self.folder = folder
        self._unified = unified

    def limit(self, size: int) -> bool:
        """Limit the memory of the job to `size` bytes; return whether the kernel accepts it.

        If the job needs more and no page cache can be reclaimed, the kernel kills one process,
        or all with v2. The job does not swap instead, which would slow down the whole host.
        """
        if self._unified:
            limited = self._write("memory.max", size)
            self._write("memory.swap.max", 0)
            self._write("memory.oom.group", 1)
        else:
            limited = self._write("memory.limit_in_bytes", size)
            self._write("memory.memsw.limit_in_bytes", size)
        return limited

    def lift(self) -> bool:
        """Remove the limit; return whether the kernel accepts it."""
        if self._unified:
            self._write("memory.swap.max", "max")
            return self._write("memory.max", "max")
        # In this order: the limit with swap must never be lower than the limit without.
        self._write("memory.memsw.limit_in_bytes", -1)
        return self._write("memory.limit_in_bytes", -1)

    def used(self) -> int | None:
        """Return the bytes used, without page cache; None if unknown."""
        names = ("anon", "shmem") if self._unified else ("total_rss", "total_shmem")
        values = {}
        try:
            for line in files.read_text(f"{self.folder}/memory.stat").splitlines():
                name, value = line.split()
                if name in names:
                    values[name] = int(value)
        except (OSError, ValueError):
            return None
        # Old kernels do not count shared memory separately.
        return sum(values.values()) if names[0] in values else None

    def has_killed(self) -> bool:
        """Return whether the kernel has killed a process of the cgroup for lack of memory.

        With v1, old kernels (before Linux 4.13) do not tell.
        """
        name = "memory.events" if self._unified else "memory.oom_control"
        try:
            lines = files.read_text(f"{self.folder}/{name}").splitlines()
        except OSError:
            return False
        counts = dict(line.split() for line in lines if line.count(" ") == 1)
        return counts.get("oom_kill", "0") != "0"

    def remove(self) -> bool:
        """Remove the cgroup unless it has processes; return whether it is gone.

        With v2, it is the job's own.
        """
        return JobGroup(self.folder, unified=self._unified).remove()

    def _write(self, name: str, value: int | str) -> bool:
        return files.try_write(f"{self.folder}/{name}", str(value))


def make(process: ProcessId, group: JobGroup) -> MemoryGroup | None:
    """Return the cgroup that can limit the memory of a job; create it if need be.

    Args:
        process: Main process of the job.
        group: Cgroup of the job, with all its processes.

    Returns:
        The cgroup; None if memory cannot be limited: the controller is not enabled or not
        mounted, or for lack of permission.
    """
    if (group.folder / "memory.max").exists():
        return MemoryGroup(group.folder, unified=True)
    own = job_cgroup.make_in("memory", process, group)
    return None if own is None else MemoryGroup(own.folder, unified=False)


def of_group(group: JobGroup) -> MemoryGroup | None:
    """Return the cgroup of a job as one that accounts for its memory; None if it does not."""
    has_memory = (group.folder / "memory.events").exists()
    return MemoryGroup(group.folder, unified=True) if has_memory else None


def made_before(folder: Path) -> MemoryGroup:
    """Return a cgroup that an earlier controller has made.

    Args:
        folder: Its folder, which may be gone.
    """
    return MemoryGroup(folder, unified=(folder / "cgroup.controllers").exists())
