# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Limit of the CPUs of login users: systemd has all of their processes in the cgroup user.slice.

A job that a login user starts would be limited, too. So jobs are moved to a cgroup beside it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.linux import files
from tf_malleable.linux.cgroups import cgroup
from tf_malleable.linux.cgroups.cgroup import Mount
from tf_malleable.linux.processes import procfs
from tf_malleable.model import Cpuset, ProcessId, format_cpuset

_SLICE: Final = "user.slice"
_EXEMPT: Final = "tf_malleable.slice"
# In microseconds.
_PERIOD: Final = 100_000


class SliceError(Exception):
    """Login users cannot be limited; the message is one sentence."""


@dataclass(frozen=True)
class SliceLimit:
    """A limit of the CPUs of login users that can be put in force and lifted.

    Attributes:
        folder: The cgroup user.slice in the hierarchy that limits.
        mount: That hierarchy.
        before: Texts of the files to write, as they were before, in the order of writing.
        wanted: Texts of the same files with the limit.
    """

    folder: Path
    mount: Mount
    before: Mapping[str, str]
    wanted: Mapping[str, str]

    def apply(self) -> None:
        """Put the limit in force.

        Raises:
            SliceError: The kernel refuses; nothing has changed.
        """
        try:
            self._exempted().mkdir(exist_ok=True)
            for name in ("cpuset.mems", "cpuset.cpus"):  # In v1, they are empty at first.
                with suppress(FileNotFoundError):
                    text = (self._exempted().parent / name).read_text()
                    if not self.mount.unified:
                        _write(self._exempted() / name, text)
            for name, text in self.wanted.items():
                _write(self.folder / name, text)
        except OSError as error:
            lift(self.saved())
            raise SliceError(f"cannot limit {self.folder}: {error.strerror}") from None

    def saved(self) -> str:
        """Return a text from which lift() lifts the limit, also in another process."""
        return json.dumps({"folder": str(self.folder), "before": dict(self.before)})

    def exempt(self, process: ProcessId) -> None:
        """Move a process with its descendants out of the limit, if they are in it.

        Processes that have ended are left out.
        """
        for pid in (process.pid, *procfs.trees([process.pid])[process.pid]):
            with suppress(OSError, ValueError):
                if self._has(pid):
                    _write(self._exempted() / "cgroup.procs", str(pid))

    def _exempted(self) -> Path:
        return self.folder.with_name(_EXEMPT)

    def _has(self, pid: int) -> bool:
        memberships = cgroup.parse_memberships(files.read_text(f"/proc/{pid}/cgroup"))
        keys = [""] if self.mount.unified else self.mount.controllers & memberships.keys()
        folders = [cgroup.folders(self.mount, memberships[key])[0] for key in keys]
        return any(each == self.folder or self.folder in each.parents for each in folders)


def lift(saved: str) -> str | None:
    """Lift a limit; return why that is not possible, in one sentence, or None.

    Args:
        saved: Text that saved() has returned.
    """
    try:
        known = json.loads(saved)
        folder = Path(known["folder"])
        if folder.exists():  # It is gone after a reboot, and so is the limit.
            for name, text in known["before"].items():
                _write(folder / name, text)
        # Jobs that run on stay in it.
        with suppress(OSError):
            folder.with_name(_EXEMPT).rmdir()
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        return f"cannot lift the limit of {_SLICE}: {error}"
    return None


def login_users_limit(cpus: Cpuset, root: str = "") -> SliceLimit:
    """Return the limit of login users to some CPUs, or to the time of as many.

    CPUs are limited if a hierarchy can, otherwise the time on all of them.

    Args:
        cpus: CPUs that they may use; at least one.
        root: Path below the mount points at which user.slice is; for tests.

    Raises:
        SliceError: This process is not root, or there is no such cgroup.
    """
    if os.geteuid() != 0:
        raise SliceError("only root can limit the processes of all login users")
    mountinfo = Path("/proc/self/mountinfo").read_text(errors="replace")
    mounts = cgroup.parse_mounts(mountinfo)
    for names, texts in _ways(cpus):
        for mount in mounts:
            folder = mount.point / root.strip("/") / _SLICE
            if all((folder / name).exists() for name in names):
                before = {name: (folder / name).read_text().strip() for name in names}
                return SliceLimit(folder, mount, before, dict(zip(names, texts, strict=True)))
    raise SliceError(
        f"there is no cgroup {_SLICE} with the files cpuset.cpus, cpu.max or cpu.cfs_quota_us:"
        " systemd makes it, and its cpu or cpuset controller must be enabled"
    )


def _ways(cpus: Cpuset) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    """Return the files that limit, the best first, and their texts."""
    quota = len(cpus) * _PERIOD
    return [
        (("cpuset.cpus",), (format_cpuset(cpus),)),
        (("cpu.max",), (f"{quota} {_PERIOD}",)),
        (("cpu.cfs_period_us", "cpu.cfs_quota_us"), (str(_PERIOD), str(quota))),
    ]


def _write(path: Path, text: str) -> None:
    # Unlike write_text(), this does not create a file. An empty text would not be written at all.
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(descriptor, f"{text.strip()}\n".encode())
    finally:
        os.close(descriptor)
