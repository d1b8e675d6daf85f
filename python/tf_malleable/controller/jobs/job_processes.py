# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Processes of a live job, and the cgroups that contain them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from tf_malleable.linux.cgroups.container_cgroup import ContainerCgroup
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.cgroups.memory_cgroup import MemoryGroup
from tf_malleable.model import ProcessId
from tf_malleable.model.pool import ThreadLibrary


@dataclass
class JobProcesses:
    """Processes of a live job.

    Attributes:
        pidfd: Pidfd of the main process, readable once it has ended; None without one.
        tree: Pids of the job's processes, as of the last survey.
        libraries: Libraries with threads of their own that a process has loaded, by its pid.
        fixed: Names of libraries whose threads do not follow grants, by the pid of a process that
            has loaded one.
        starts: Start times by pid, of these and maybe others, in clock ticks since boot.
        group: Cgroup of the job; None for containers, and where none could be made.
        memory_group: Cgroup in which the memory is limited; None if it is not.
        container: Cgroup of the container; None for other jobs, and before its first process.
    """

    pidfd: int | None = None
    tree: list[int] = field(default_factory=list)
    libraries: Mapping[int, tuple[ThreadLibrary, ...]] = field(default_factory=dict)
    fixed: Mapping[int, str] = field(default_factory=dict)
    starts: Mapping[int, int] = field(default_factory=dict)
    group: JobGroup | None = None
    memory_group: MemoryGroup | None = None
    container: ContainerCgroup | None = None

    def attach(self, main: ProcessId, pidfd: int) -> None:
        """Set the main process and take ownership of the pidfd."""
        self.pidfd, self.tree = pidfd, [main.pid]
        self.starts = {main.pid: main.start}

    def detach_main(self) -> int | None:
        """Give up the pidfd of the main process, which has ended; return it."""
        pidfd, self.pidfd = self.pidfd, None
        return pidfd

    def attach_leftovers(self, leftovers: Iterable[ProcessId]) -> None:
        """Add processes that have outlived the main process."""
        found = {each.pid: each.start for each in leftovers}
        self.tree = [*self.tree, *(pid for pid in found if pid not in self.tree)]
        self.starts = {
            **{pid: self.starts[pid] for pid in self.tree if pid in self.starts},
            **found,
        }

    def attach_group(self, group: JobGroup | None) -> None:
        """Set the cgroup that contains all processes of the job."""
        self.group = group

    def attach_memory(self, group: MemoryGroup | None) -> None:
        """Set the cgroup in which the memory is limited."""
        self.memory_group = group

    def attach_container(self, container: ContainerCgroup) -> None:
        """Set the cgroup of the container."""
        self.container = container

    def note_libraries(
        self, libraries: Mapping[int, tuple[ThreadLibrary, ...]], fixed: Mapping[int, str]
    ) -> None:
        """Set what processes have loaded, and those whose threads do not follow grants, by pid."""
        if libraries != self.libraries:
            self.libraries = libraries
        self.fixed = fixed

    def note_tree(self, tree: list[int], starts: Mapping[int, int] | None = None) -> bool:
        """Set the pids of the job's processes; return whether they have changed.

        Args:
            tree: The pids.
            starts: Start times by pid, of these and maybe others; None if unknown.
        """
        if changed := tree != self.tree:
            self.tree = tree
        if starts is not None:
            self.starts = starts
        return changed

    def identities(
        self, main: ProcessId | None, pids: Iterable[int] | None = None
    ) -> list[ProcessId]:
        """Return the job's processes, or those of them that have one of these pids.

        Args:
            main: The job's main process, which has the same boot; None without a process.
            pids: Pids of the wanted processes; None for all.
        """
        if main is None:
            return []
        wanted = self.tree if pids is None else pids
        return [ProcessId(pid, self.starts[pid], main.boot) for pid in wanted if pid in self.starts]
