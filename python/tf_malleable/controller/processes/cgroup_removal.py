# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Removal of the cgroups of ended jobs, once they have no processes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

from tf_malleable.linux.cgroups.cpu_cgroup import CpuGroup
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.linux.cgroups.memory_cgroup import MemoryGroup

Group = JobGroup | MemoryGroup | CpuGroup

# A killed process normally leaves its cgroup within this time; otherwise the next attempt helps.
_KILLED_SECONDS = 0.5


class Emptying:
    """Cgroups that belong to no live job. Not thread-safe: one asyncio loop."""

    def __init__(self) -> None:
        # By folder: cgroups not tried yet, those being tried in a thread, and those that had
        # processes when they were tried.
        self._new: dict[Path, Group] = {}
        self._trying: dict[Path, Group] = {}
        self._crowded: dict[Path, Group] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._removing: asyncio.Task[None] | None = None
        self._closed = False

    def add(self, group: Group) -> None:
        """Remove a cgroup once it has no processes, which is polled."""
        self._new[group.folder] = group
        self._remove_soon()

    def keep(self, group: Group) -> None:
        """Do not remove a cgroup, as it has a live job now."""
        for groups in (self._new, self._trying, self._crowded):
            groups.pop(group.folder, None)

    def close(self) -> None:
        """Remove the cgroups that are empty now, and try no others any more."""
        self._closed = True
        for each in (self._timer, self._removing):
            if each is not None:
                each.cancel()
        _not_removed([*self._crowded.values(), *self._trying.values(), *self._new.values()])

    def _remove_soon(self) -> None:
        if self._timer is None and not self._closed:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_KILLED_SECONDS, self._start_removing)

    def _start_removing(self) -> None:
        self._timer = None
        if self._removing is not None and not self._removing.done():
            self._remove_soon()
        elif self._new or self._crowded:
            self._removing = asyncio.get_running_loop().create_task(self._remove())

    async def _remove(self) -> None:
        new, self._new = self._new, {}
        self._trying, self._crowded = self._crowded | new, {}
        # The kernel may take tens of milliseconds per cgroup.
        left = await asyncio.to_thread(_not_removed, [*self._trying.values()])
        self._crowded |= {g.folder: g for g in left if g.folder in self._trying}
        self._trying = {}
        if new.keys() & self._crowded.keys():
            # Their processes may have been killed just before this attempt.
            self._remove_soon()


def _not_removed(groups: Iterable[Group]) -> list[Group]:
    return [group for group in groups if not group.remove()]
