# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Weight of the CPU time of one job, with cgroups.

With v2, the scope that systemd has made for the job is used, or else the job's own cgroup if the
cpu controller is, or can be, enabled there. With v1, CPU time has a separate hierarchy, in which a
cgroup is created.

A weight counts among the cgroups and sessions beside the job's cgroup, on each CPU.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from tf_malleable.linux import files
from tf_malleable.linux.cgroups import cgroup, job_cgroup
from tf_malleable.linux.cgroups.job_cgroup import JobGroup
from tf_malleable.model import ProcessId

# The kernel's weight of a cgroup or session of which nothing is said, and its bounds.
_SHARES: Final = (1024, 2, 1 << 18)
_WEIGHT: Final = (100, 1, 10_000)


class CpuCgroupError(Exception):
    """No cgroup can have a weight here; the message is a clause that says why."""


class CpuGroup:
    """The cgroup that weighs the CPU time of a job.

    Attributes:
        folder: Folder of the cgroup.
        most: Highest weight, as a multiple of the usual one.
    """

    def __init__(self, folder: Path, *, unified: bool) -> None:
        self.folder = folder
        self._unified = unified
        usual, _, most = _WEIGHT if unified else _SHARES
        self.most = most / usual

    def has_idle(self) -> bool:
        """Return whether the cgroup can be in the idle class, as since Linux 5.15."""
        return (self.folder / "cpu.idle").exists()

    def weigh(self, weight: float) -> bool:
        """Set the weight, as a multiple of the usual one; return whether the kernel accepts it."""
        usual, least, most = _WEIGHT if self._unified else _SHARES
        # First, as a cgroup in the idle class has no other weight.
        self._write("cpu.idle", 0)
        value = min(most, max(least, round(usual * weight)))
        return self._write("cpu.weight" if self._unified else "cpu.shares", value)

    def stand_back(self) -> bool:
        """Have whatever else wakes up on a CPU of the job preempt it; return whether it can.

        By the idle class; where the kernel lacks that, by the lowest weight.
        """
        return self._write("cpu.idle", 1) or self.weigh(0)

    def remove(self) -> bool:
        """Remove the cgroup unless it has processes; return whether it is gone.

        With v2, it is the job's own. A scope is left to systemd.
        """
        if self.folder.suffix == ".scope":
            return True
        return JobGroup(self.folder, unified=self._unified).remove()

    def _write(self, name: str, value: int) -> bool:
        return files.try_write(f"{self.folder}/{name}", str(value))


def make(process: ProcessId, group: JobGroup) -> CpuGroup | None:
    """Return the cgroup that can weigh the CPU time of a job; create it if need be.

    Args:
        process: Main process of the job.
        group: Cgroup of the job, with all its processes.

    Returns:
        The cgroup; None if there can be none, for whatever reason.
    """
    unified = group.scope or group.folder
    if _is_weighed(unified):
        return CpuGroup(unified, unified=True)
    own = job_cgroup.make_in("cpu", process, group)
    return None if own is None else CpuGroup(own.folder, unified=False)


def made_before(process: ProcessId, group: JobGroup) -> CpuGroup | None:
    """Return the cgroup that an earlier controller has made for a job; None if there is none."""
    unified = group.scope or group.folder
    if (unified / "cpu.weight").exists():
        return CpuGroup(unified, unified=True)
    home = job_cgroup.home_in("cpu", process.pid)
    if home is None or home.name != group.folder.name:
        return None
    return CpuGroup(home, unified=False)


def probe() -> CpuGroup:
    """Return a cgroup that was made below that of this process, and is gone: a kind that works.

    Raises:
        CpuCgroupError: There can be none.
    """
    try:
        mounts = cgroup.parse_mounts(Path("/proc/self/mountinfo").read_text(errors="replace"))
        memberships = cgroup.parse_memberships(files.read_text("/proc/self/cgroup"))
    except (OSError, ValueError) as error:
        raise CpuCgroupError(f"the cgroups of this process cannot be read: {error}") from None
    return probe_in(mounts, memberships)


def probe_in(mounts: tuple[cgroup.Mount, ...], memberships: dict[str, str]) -> CpuGroup:
    """Do the same as probe(), for a process with these memberships."""
    problem = "no cgroup hierarchy with the cpu controller is mounted"
    for mount in sorted(mounts, key=lambda mount: not mount.unified):
        key = "" if mount.unified else "cpu"
        if key not in memberships or not (mount.unified or key in mount.controllers):
            continue
        home = cgroup.folders(mount, memberships[key])[0]
        if mount.unified and "cpu" not in _words(home / "cgroup.controllers"):
            continue
        folder = home / f"tfm-probe-{os.getpid()}"
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            problem = f"no cgroup can be made in {home}: {error.strerror}"
            continue
        try:
            if mount.unified and not _is_weighed(folder):
                problem = f"the cpu controller cannot be enabled below {home}, which has processes"
                continue
            found = _Probed(folder, unified=mount.unified)
            if found.weigh(1):
                return found
            problem = f"no weight can be set in {home}"
        finally:
            with suppress(OSError):
                folder.rmdir()
    raise CpuCgroupError(problem)


class _Probed(CpuGroup):
    """A cgroup that will be gone."""

    def __init__(self, folder: Path, *, unified: bool) -> None:
        super().__init__(folder, unified=unified)
        self._idle = super().has_idle()

    def has_idle(self) -> bool:
        return self._idle


def _is_weighed(folder: Path) -> bool:
    """Return whether a cgroup of v2 has a weight; enable the cpu controller for it if possible."""
    if (folder / "cpu.weight").exists():
        return True
    parent = folder.parent
    # Linux may let a cgroup with processes enable the controller, but then no cgroup below it can
    # have processes. The root, which has no type, is exempt.
    is_taken = (parent / "cgroup.type").exists() and _words(parent / "cgroup.procs")
    if "cpu" in _words(parent / "cgroup.controllers") and not is_taken:
        with suppress(OSError):  # The kernel refuses, or the rights are missing.
            files.write(f"{parent}/cgroup.subtree_control", "+cpu")
    return (folder / "cpu.weight").exists()


def _words(path: Path) -> list[str]:
    try:
        return path.read_text().split()
    except OSError:
        return []
