# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Cgroup files of a container, read and written from the host: the limits in force."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.linux.cgroups import cgroup
from tf_malleable.model import Cpuset, parse_cpuset

# Period of a CPU quota in microseconds, the same as that of the engines.
PERIOD_US: Final = 100_000
# In bytes; enough for the pids of more processes than any container has.
_LONGEST: Final = 1 << 20


@dataclass(frozen=True)
class State:
    """The contents of a container's cgroup files.

    Attributes:
        cpus: CPUs that the container may use; None if unknown.
        quota_cpus: Quota of CPU time, in CPUs; None for no quota.
        frozen: Whether the container is frozen.
        cpu_seconds: CPU time used, in seconds.
        pids: Pids of the container's processes.
    """

    cpus: Cpuset | None
    quota_cpus: float | None
    frozen: bool
    cpu_seconds: float
    pids: tuple[int, ...]


class CgroupFiles:
    """The cgroup files of one container. They stay open, as they are read ten times a second.

    Raises:
        OSError: The process has ended.
    """

    def __init__(self, pid: int) -> None:
        """Open the files of the container of a process."""
        self._descriptors: dict[str, int] = {}
        try:
            for name, path in _paths(pid).items():
                # A controller that is missing or not enabled limits nothing.
                with suppress(FileNotFoundError):
                    self._descriptors[name] = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except BaseException:
            self.close()
            raise

    def read(self) -> State:
        """Return the current contents.

        Raises:
            OSError: The container has ended.
        """
        cpus = quota = None
        with suppress(ValueError):
            cpus = parse_cpuset(self._text("cpuset")) or None
        with suppress(ValueError):
            quota = self._quota()
        return State(
            cpus,
            quota,
            _is_frozen(self._text("frozen")),
            _cpu_seconds(self._text("usage")),
            tuple(map(int, self._text("processes").split())),
        )

    def close(self) -> None:
        """Close the files; they cannot be read afterwards."""
        for descriptor in self._descriptors.values():
            os.close(descriptor)
        self._descriptors.clear()

    def _text(self, name: str) -> str:
        descriptor = self._descriptors.get(name)
        return "" if descriptor is None else os.pread(descriptor, _LONGEST, 0).decode()

    def _quota(self) -> float | None:
        if "quota" in self._descriptors:
            return cgroup.parse_cpu_max(self._text("quota"))
        return cgroup.parse_cfs(self._text("cfs_quota"), self._text("cfs_period"))


def write(pid: int, *, cpuset: str | None = None, quota_cpus: int | None = None) -> None:
    """Change the limits of a process's container directly, bypassing its engine.

    Args:
        pid: Pid of the process.
        cpuset: List of CPUs in the kernel's format; None for no change.
        quota_cpus: Quota of CPU time, in CPUs; None for no change.

    Raises:
        OSError: The container has ended, or the kernel refuses.
    """
    paths = _paths(pid)
    if cpuset is not None and "cpuset" in paths:
        (paths["cpuset"].parent / "cpuset.cpus").write_text(cpuset)
    if quota_cpus is None:
        return
    if "quota" in paths:
        paths["quota"].write_text(f"{quota_cpus * PERIOD_US} {PERIOD_US}")
    elif "cfs_quota" in paths:
        paths["cfs_period"].write_text(str(PERIOD_US))
        paths["cfs_quota"].write_text(str(quota_cpus * PERIOD_US))


def _paths(pid: int) -> dict[str, Path]:
    mountinfo = Path("/proc/self/mountinfo").read_text(errors="replace")
    return paths(mountinfo, Path(f"/proc/{pid}/cgroup").read_text(errors="replace"))


def paths(mountinfo: str, membership: str) -> dict[str, Path]:
    """Return the path of each file, by purpose.

    Args:
        mountinfo: Text of this process's /proc/self/mountinfo.
        membership: Text of /proc/PID/cgroup of the container's process.
    """
    mounts = cgroup.parse_mounts(mountinfo)
    memberships = cgroup.parse_memberships(membership)

    def folder(controller: str) -> Path | None:
        for mount in mounts:
            here = controller in mount.controllers if controller else mount.unified
            if here and controller in memberships:
                return cgroup.folders(mount, memberships[controller])[0]
        return None

    v1 = {
        "cpuset": ("cpuset", "cpuset.effective_cpus"),
        "cfs_quota": ("cpu", "cpu.cfs_quota_us"),
        "cfs_period": ("cpu", "cpu.cfs_period_us"),
        "frozen": ("freezer", "freezer.state"),
        "usage": ("cpuacct", "cpuacct.usage"),
        "processes": ("cpu", "cgroup.procs"),
    }
    v2 = {
        "cpuset": ("", "cpuset.cpus.effective"),
        "quota": ("", "cpu.max"),
        "frozen": ("", "cgroup.events"),
        "usage": ("", "cpu.stat"),
        "processes": ("", "cgroup.procs"),
    }
    wanted = v1 if folder("cpu") is not None else v2
    return {
        name: found / file
        for name, (controller, file) in wanted.items()
        if (found := folder(controller)) is not None
    }


def _is_frozen(text: str) -> bool:
    """Return whether freezer.state (v1) or cgroup.events (v2) says frozen."""
    return text.strip() == "FROZEN" or "frozen 1" in text.splitlines()


def _cpu_seconds(text: str) -> float:
    """Return the CPU time in cpuacct.usage (v1, nanoseconds) or cpu.stat (v2), in seconds."""
    first, *rest = text.split() or ["0"]
    return int(rest[0]) / 1e6 if rest else int(first) / 1e9
