# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The cgroup of one job, which contains all processes of the job.

It is created below the cgroup of the job's main process, or in a scope beside that (see
systemd_scope), so that all limits there still apply to the job. With v2, no controller needs to be
enabled: membership, freezing, killing and CPU time work without. With v1, the freezer hierarchy is
used.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from tf_malleable.linux import files
from tf_malleable.linux.cgroups import cgroup
from tf_malleable.linux.processes import procfs
from tf_malleable.model import ProcessId

# Freezing takes the time until each process next enters the kernel: milliseconds, unless
# hundreds of them compete for the CPUs.
_FREEZING_SECONDS: Final = 0.1
_POLL_SECONDS: Final = 0.0005
_NAME: Final = re.compile(r"/tfm-job-(\d{1,10})-(\d{1,20})$", re.MULTILINE)
_CONTROLLERS: Final = frozenset({"freezer", "memory", "cpu"})
_FOLDER: Final = re.compile(r"tfm-job-(\d{1,10})-(\d{1,20})")


class JobGroup:
    """The cgroup of one job.

    Attributes:
        folder: Folder of the cgroup.
    """

    def __init__(self, folder: Path, *, unified: bool) -> None:
        self.folder = folder
        self._unified = unified

    @property
    def scope(self) -> Path | None:
        """Folder of the scope that systemd has made for the job; None if it has none."""
        parent = self.folder.parent
        return parent if parent.name == f"{self.folder.name}.scope" else None

    def has_freezer(self) -> bool:
        """Return whether the cgroup can be frozen; v2 can since Linux 5.2."""
        return (self.folder / ("cgroup.freeze" if self._unified else "freezer.state")).exists()

    def add(self, pid: int) -> None:
        """Move a process into the cgroup; its later children will be in it, too.

        Raises:
            OSError: The process has ended, or the kernel refuses.
        """
        (self.folder / "cgroup.procs").write_text(str(pid))

    def pids(self) -> list[int]:
        """Return the pids of the processes in the cgroup; empty if it no longer exists."""
        try:
            found = files.read_whole(f"{self.folder}/cgroup.procs").split()
        except OSError:
            return []
        return sorted({int(pid) for pid in found} - {0})  # 0 is outside our PID namespace.

    def is_populated(self) -> bool:
        """Return whether the cgroup, or with v2 one below it, has processes."""
        if self._unified:
            try:
                return b"populated 1" in files.read(f"{self.folder}/cgroup.events").split(b"\n")
            except OSError:
                return False
        return bool(self.pids())

    def cpu_seconds(self) -> float | None:
        """Return the CPU time in seconds of all processes, also ended ones; None if unknown."""
        if not self._unified:
            return None
        try:
            label, value, *_ = files.read(f"{self.folder}/cpu.stat").split()
        except (OSError, ValueError):
            return None
        return int(value) / 1e6 if label == b"usage_usec" else None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the cgroup during the context, so that no process starts meanwhile."""
        self._freeze()
        try:
            yield
        finally:
            self.thaw()

    def _freeze(self) -> None:
        self._write(*(("cgroup.freeze", "1") if self._unified else ("freezer.state", "FROZEN")))
        deadline = time.monotonic() + _FREEZING_SECONDS
        while not self._is_frozen() and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _is_frozen(self) -> bool:
        try:
            if self._unified:
                return "frozen 1" in (self.folder / "cgroup.events").read_text().splitlines()
            return (self.folder / "freezer.state").read_text().strip() == "FROZEN"
        except OSError:
            return True  # The cgroup is gone.

    def thaw(self) -> None:
        """Thaw the cgroup: its processes run again."""
        self._write(*(("cgroup.freeze", "0") if self._unified else ("freezer.state", "THAWED")))

    def kill(self) -> bool:
        """Kill all processes; return whether the kernel can (v2, since Linux 5.14)."""
        return self._unified and self._write("cgroup.kill", "1")

    def remove(self) -> bool:
        """Remove the cgroup unless it has processes; return whether it is gone."""
        try:
            self.folder.rmdir()
        except FileNotFoundError:
            return True
        except OSError:
            return False
        return True

    def _write(self, name: str, value: str) -> bool:
        return files.try_write(f"{self.folder}/{name}", value)


def name(process: ProcessId) -> str:
    """Return the name of the cgroup of a job.

    Args:
        process: Main process of the job.
    """
    return f"tfm-job-{process.pid}-{process.start}"


def make(process: ProcessId) -> JobGroup | None:
    """Create the cgroup of a job, or return the existing one.

    Args:
        process: Main process of the job.

    Returns:
        The cgroup, with the process and all its descendants; None if it cannot be created,
        because no hierarchy is mounted or for lack of permission.
    """
    for folder, unified in _homes(process.pid):
        if folder.name == name(process):
            return JobGroup(folder, unified=unified)
        group = make_below(folder, process, unified=unified)
        if group is not None:
            return group
    return None


def make_below(folder: Path, process: ProcessId, *, unified: bool) -> JobGroup | None:
    """Create the cgroup of a job below another one; see make()."""
    group = JobGroup(folder / name(process), unified=unified)
    try:
        group.folder.mkdir(exist_ok=True)
    except OSError:
        return None
    if group.has_freezer() and _moved(process, group):
        return group
    group.remove()
    return None


def found(folder: Path, process: ProcessId) -> JobGroup | None:
    """Return the cgroup in this folder if it was created for this process, in this boot."""
    ours = folder.name == name(process) and process.boot == procfs.boot_id()
    if not ours or not (folder / "cgroup.procs").exists():
        return None
    return JobGroup(folder, unified=(folder / "cgroup.controllers").exists())


def make_in(controller: str, process: ProcessId, group: JobGroup) -> JobGroup | None:
    """Return the cgroup of a job in a separate hierarchy of v1; create it if need be.

    Args:
        controller: Controller of the hierarchy.
        process: Main process of the job.
        group: Cgroup of the job, with all its processes.

    Returns:
        The cgroup, with the same processes; None if it cannot be created, because the hierarchy
        is not mounted or for lack of permission.
    """
    home = home_in(controller, process.pid)
    if home is None:
        return None
    if home.name == group.folder.name:
        return JobGroup(home, unified=False)
    own = JobGroup(home / group.folder.name, unified=False)
    try:
        own.folder.mkdir(exist_ok=True)
        own.add(process.pid)
    except OSError:
        own.remove()
        return None
    for pid in group.pids():
        with suppress(OSError):  # The process has ended since.
            own.add(pid)
    return own


def home_in(controller: str, pid: int) -> Path | None:
    """Return the folder of a process's cgroup in a hierarchy of v1; None if it is not visible."""
    try:
        mounts = cgroup.parse_mounts(Path("/proc/self/mountinfo").read_text(errors="replace"))
        path = cgroup.parse_memberships(files.read_text(f"/proc/{pid}/cgroup")).get(controller)
    except (OSError, ValueError):
        return None
    for mount in mounts:
        if path is not None and controller in mount.controllers:
            folder = cgroup.folders(mount, path)[0]
            # The cgroup itself must be visible, not just one of its parents.
            if folder.name == Path(path).name or path == mount.root:
                return folder
    return None


def made_by_this_user() -> list[tuple[tuple[int, int], JobGroup]]:
    """Return the cgroups of jobs that controllers of this user have made, in all hierarchies.

    Each comes with pid and start time of its job's main process. A cgroup that is empty while that
    process runs is left out: a controller has just made it.
    """
    try:
        mounts = cgroup.parse_mounts(Path("/proc/self/mountinfo").read_text(errors="replace"))
    except OSError:
        return []
    found = []
    for mount in mounts:
        if not mount.unified and not mount.controllers & _CONTROLLERS:
            continue
        # Others' cgroups go meanwhile, which os.walk() bears.
        for parent, children, _ in os.walk(mount.point):
            for match in filter(None, map(_FOLDER.fullmatch, children)):
                main = int(match[1]), int(match[2])
                group = JobGroup(Path(parent, match[0]), unified=mount.unified)
                with suppress(OSError):  # It is gone.
                    is_ours = group.folder.stat().st_uid == os.geteuid()
                    running = procfs.identify(main[0])
                    has_ended = running is None or running.start != main[1]
                    if is_ours and (has_ended or group.is_populated()):
                        found.append((main, group))
    return found


def main_of(pid: int) -> tuple[int, int] | None:
    """Return pid and start time of a job's main process from a process's cgroup.

    None if the process is in no job's cgroup.
    """
    try:
        text = files.read_text(f"/proc/{pid}/cgroup")
    except OSError:
        return None
    found = _NAME.search(text)
    return None if found is None else (int(found[1]), int(found[2]))


def _moved(process: ProcessId, group: JobGroup) -> bool:
    """Move a process and all its descendants; return whether the kernel permits it."""
    try:
        group.add(process.pid)
    except OSError:
        return False
    if procfs.has_children(process.pid):
        for pid in procfs.trees([process.pid])[process.pid]:
            with suppress(OSError):  # The process has ended since.
                group.add(pid)
    return True


def _homes(pid: int) -> list[tuple[Path, bool]]:
    """Return possible parents of a job's cgroup: folders, each with whether it is v2; v2 first."""
    try:
        mounts = cgroup.parse_mounts(Path("/proc/self/mountinfo").read_text(errors="replace"))
        text = files.read_text(f"/proc/{pid}/cgroup")
        memberships = cgroup.parse_memberships(text)
    except (OSError, ValueError):
        return []
    found = []
    for mount in mounts:
        key = "" if mount.unified else "freezer"
        if key in memberships and (mount.unified or "freezer" in mount.controllers):
            path = memberships[key]
            folder = cgroup.folders(mount, path)[0]
            # The cgroup itself must be visible, not just one of its parents.
            if folder.name == Path(path).name or path == mount.root:
                found.append((folder, mount.unified))
    return sorted(found, key=lambda home: not home[1])
