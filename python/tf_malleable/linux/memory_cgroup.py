# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The memory of one job as its cgroup counts and limits it.

With v2 that is the job's own cgroup, if its parent has the memory controller enabled for
its children. With v1, memory has a hierarchy of its own, in which one is made.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from tf_malleable.linux import cgroup, files
from tf_malleable.linux.job_cgroup import JobGroup
from tf_malleable.model import ProcessId


class MemoryGroup:
    """A cgroup in which the memory of a job is counted.

    Attributes:
        folder: Its folder.
    """

    def __init__(self, folder: Path, *, unified: bool) -> None:
        self.folder = folder
        self._unified = unified

    def limit(self, size: int) -> bool:
        """Limit the memory of all its processes; return whether the kernel does it.

        If they need more and nothing of it is page cache, the kernel kills one of them, or
        all with v2. They do not swap instead, which would slow down the whole host.
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
        """Limit its processes no longer; return whether the kernel does it."""
        if self._unified:
            self._write("memory.swap.max", "max")
            return self._write("memory.max", "max")
        # In this order: with swap must never be less than without.
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
        # Old kernels do not count shared memory apart.
        return sum(values.values()) if names[0] in values else None

    def remove(self) -> bool:
        """Remove it if it is not the job's own cgroup as well; return whether it is gone."""
        return self._unified or JobGroup(self.folder, unified=False).remove()

    def _write(self, name: str, value: int | str) -> bool:
        try:
            # Unlike write_text(), this does not create a file.
            descriptor = os.open(self.folder / name, os.O_WRONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            os.write(descriptor, str(value).encode())
        except OSError:
            return False
        finally:
            os.close(descriptor)
        return True


def make(process: ProcessId, group: JobGroup) -> MemoryGroup | None:
    """Return the cgroup in which a job's memory can be limited; make it if need be.

    Args:
        process: The job's main process.
        group: The job's cgroup, with all its processes.

    Returns:
        None if memory cannot be limited here: not enabled, not mounted, or no permission.
    """
    if (group.folder / "memory.max").exists():
        return MemoryGroup(group.folder, unified=True)
    home = _home(process.pid)
    if home is None:
        return None
    if home.name == group.folder.name:
        return MemoryGroup(home, unified=False)
    own = JobGroup(home / group.folder.name, unified=False)
    try:
        own.folder.mkdir(exist_ok=True)
        own.add(process.pid)
    except OSError:
        own.remove()
        return None
    for pid in group.pids():
        with suppress(OSError):  # It has ended since.
            own.add(pid)
    return MemoryGroup(own.folder, unified=False)


def _home(pid: int) -> Path | None:
    """Return the folder of a process's cgroup in v1's hierarchy for memory."""
    try:
        mounts = cgroup.parse_mounts(Path("/proc/self/mountinfo").read_text(errors="replace"))
        text = Path(f"/proc/{pid}/cgroup").read_text(errors="replace")
        path = cgroup.parse_memberships(text).get("memory")
    except (OSError, ValueError):
        return None
    for mount in mounts:
        if path is not None and "memory" in mount.controllers:
            folder = cgroup.folders(mount, path)[0]
            # The cgroup itself must be visible, not just one of its parents.
            if folder.name == Path(path).name or path == mount.root:
                return folder
    return None
