# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Real cgroups for the tests, where this machine lets us make any: v1, v2 or both."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.support.deadline import DEADLINE
from tf_malleable.linux.cgroups.cgroup import Mount, folders, parse_memberships, parse_mounts

PERIOD = 100_000


class Group:
    """A cgroup in the hierarchies of cpu and cpuset, with those below it."""

    def __init__(self, cpu: Path, cpuset: Path) -> None:
        """Make it.

        Raises:
            OSError: We may not.
        """
        self.cpu, self.cpuset = cpu, cpuset
        self.below: list[Group] = []
        for folder in {cpu, cpuset}:
            folder.mkdir()
        self._unified = (cpu / "cgroup.subtree_control").exists()
        if not self._unified:  # v1's begin without any.
            for file in ("cpuset.mems", "cpuset.cpus"):
                (cpuset / file).write_text((cpuset.parent / file).read_text())

    def child(self, name: str) -> Group:
        """Make a cgroup below this one, which then is for no processes of its own."""
        if self._unified:
            (self.cpu / "cgroup.subtree_control").write_text("+cpu +cpuset")
        self.below.append(Group(self.cpu / name, self.cpuset / name))
        return self.below[-1]

    def add(self, pid: int) -> None:
        """Move a process here."""
        for folder in {self.cpu, self.cpuset}:
            (folder / "cgroup.procs").write_text(str(pid))

    def set_quota(self, cpus: float | None) -> None:
        """Set the CPU quota, in CPUs; None for none."""
        quota = None if cpus is None else int(cpus * PERIOD)
        if self._unified:
            (self.cpu / "cpu.max").write_text(f"{'max' if quota is None else quota} {PERIOD}")
        else:
            (self.cpu / "cpu.cfs_period_us").write_text(str(PERIOD))
            (self.cpu / "cpu.cfs_quota_us").write_text(str(-1 if quota is None else quota))

    def set_cpus(self, cpus: str) -> None:
        """Set the cpuset, as a list."""
        (self.cpuset / "cpuset.cpus").write_text(cpus)

    def remove(self) -> None:
        """Kill what runs here and below, and remove it."""
        while self.below:
            self.below.pop().remove()
        for folder in {self.cpu, self.cpuset}:
            deadline = time.monotonic() + DEADLINE
            while folder.exists():
                for pid in (folder / "cgroup.procs").read_text().split():
                    with suppress(ProcessLookupError):
                        os.kill(int(pid), signal.SIGKILL)
                try:
                    folder.rmdir()
                except OSError:  # What was killed takes a moment to go.
                    if time.monotonic() > deadline:
                        raise
                    time.sleep(0.02)


def make(name: str) -> Group:
    """Make a cgroup beside, or in v1 below, the one we are in.

    Raises:
        OSError: We may not, or there is no hierarchy for CPUs.
    """
    mounts = parse_mounts(Path("/proc/self/mountinfo").read_text())
    own = parse_memberships(Path("/proc/self/cgroup").read_text())

    def home(controller: str) -> Path:
        for mount in mounts:
            if controller in mount.controllers and controller in own:
                return folders(mount, own[controller])[0]
        for mount in mounts:
            if mount.unified:
                return _unified_home(mount)
        raise FileNotFoundError(f"no cgroups for {controller} are mounted")

    return Group(home("cpu") / name, home("cpuset") / name)


def _unified_home(mount: Mount) -> Path:
    (mount.point / "cgroup.subtree_control").write_text("+cpu +cpuset")
    return mount.point
