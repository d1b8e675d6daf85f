# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Effective CPUs: the number of CPUs that this process may use, for repeated reading.

That is the minimum of the CPU affinity, the cpuset and the CPU quota, over the
process's own cgroup and every visible parent.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tf_malleable.linux.cgroups.cgroup import Source, parse_memberships, parse_mounts, sources

_OWN: Final = Path("/proc/self")
# In bytes; longer than any of the kernel's cgroup files that are read here.
_LONGEST: Final = 1 << 14
_LONGEST_REASON: Final = 200
# Interval between looks for new mounts and newly enabled controllers. Both are rare, and
# there may be thousands of mounts to parse.
_RARE_SECONDS: Final = 10.0


class Warnings:
    """Warns about each ignored file once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[Path] = set()

    def add(self, path: Path, error: Exception) -> None:
        """Warn about a file, unless it has been warned about before."""
        if path not in self._said:
            self._said.add(path)
            reason = error.strerror if isinstance(error, OSError) else None
            self._say(f"{path} is ignored: {reason or str(error)[:_LONGEST_REASON]}")


class _File:
    """A file that is kept open for repeated reading.

    Attributes:
        path: Path of the file.
        content: Content at the last read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = b""
        self._descriptor: int | None = None
        self._identity = (0, 0)

    def read(self) -> str:
        """Return the current content.

        Raises:
            OSError: The file is missing or cannot be read.
            ValueError: The path is invalid.
        """
        if self._links() == 0:
            self.close()
        if self._descriptor is None:
            self._descriptor = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(self._descriptor)
            self._identity = status.st_dev, status.st_ino
        try:
            self.content = os.pread(self._descriptor, _LONGEST, 0)
            return os.fsdecode(self.content)
        except OSError:
            # The cgroup was deleted; there may now be another with the same name.
            self.close()
            raise

    def descriptor(self) -> int | None:
        """Return the file descriptor; None if the file is not open."""
        return self._descriptor

    def close(self) -> None:
        """Close the file if it is open."""
        if self._links() is not None and self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _links(self) -> int | None:
        """Return the number of hard links of the open file; None if it is not open.

        The program may have closed our descriptor (daemons close all of them) and reused
        its number for a file of its own.
        """
        if self._descriptor is None:
            return None
        try:
            status = os.fstat(self._descriptor)
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._identity:
            self._descriptor = None
            return None
        return status.st_nlink


class _Value:
    """The last valid value of a source."""

    def __init__(self, source: Source, warnings: Warnings) -> None:
        self.glanced_at = not source.shows_in_affinity
        self.files = tuple(_File(path) for path in source.paths)
        self._parse = source.parse
        self._warnings = warnings
        self._texts: tuple[str, ...] | None = None
        self._cpus: float | None = None
        self._failed = False

    def read(self) -> float | None:
        try:
            texts = tuple(file.read() for file in self.files)
            if texts != self._texts:
                self._cpus = self._parse(*texts)
                self._texts = texts
        except (OSError, ValueError) as error:
            # If the file never existed, the controller is not enabled. If it fails only
            # once, we may just have left that cgroup.
            never_there = isinstance(error, FileNotFoundError) and self._texts is None
            if self._failed and not never_there:
                self._warnings.add(self.files[0].path, error)
            self._failed = True
        else:
            self._failed = False
        return self._cpus

    def close(self) -> None:
        for file in self.files:
            file.close()


class EffectiveCpus:
    """The number of CPUs this process may use now. Not thread-safe."""

    def __init__(self, warnings: Warnings, own: Path = _OWN, thread: int = 0) -> None:
        """Create a reader.

        Args:
            warnings: Receiver of warnings about files that cannot be read or parsed.
            own: Folder with this process's "cgroup" and "mountinfo".
            thread: Id of the thread whose CPU affinity counts; 0 for the main thread.
        """
        self._warnings = warnings
        self._memberships = _File(own / "cgroup")
        self._mountinfo = own / "mountinfo"
        self._seen = ("", "")
        self._values: dict[Source, _Value] = {}
        self._pid = thread or os.getpid()
        self._affinity: set[int] = set()
        self._glances: list[tuple[int, bytes]] = []
        self._due = 0.0

    def read(self) -> float:
        """Return the number of CPUs, which a quota can make a fraction.

        Files that cannot be read or parsed keep their last value.
        """
        self._look_where_we_are()
        found = [value.read() for value in self._values.values()]
        self._affinity = os.sched_getaffinity(self._pid)
        glanced_at = [value for value in self._values.values() if value.glanced_at]
        self._glances = [
            (descriptor, file.content)
            for file in (self._memberships, *(file for value in glanced_at for file in value.files))
            if (descriptor := file.descriptor()) is not None
        ]
        return min([float(len(self._affinity)), *(cpus for cpus in found if cpus is not None)])

    def may_have_changed(self) -> bool:
        """Return whether read() may return something new.

        This is called several times a second in a user's program, so it is cheap: it compares
        bytes, without decoding or parsing, and does not try missing files.
        """
        try:
            for descriptor, content in self._glances:
                if os.pread(descriptor, _LONGEST, 0) != content:
                    return True
        except OSError:
            return True
        return os.sched_getaffinity(self._pid) != self._affinity or time.monotonic() >= self._due

    def written_to(self) -> tuple[Path, ...]:
        """Return the files that a change of the CPUs writes to."""
        paths = [path for source in self._values for path in source.paths]
        # In v2, cpuset.cpus is written to, but cpuset.cpus.effective is in force.
        asked_for = [path.with_name("cpuset.cpus") for path in paths if "cpuset" in path.name]
        return tuple(dict.fromkeys(paths + asked_for))

    def close(self) -> None:
        """Close the files. read() opens them again."""
        self._glances = []
        self._memberships.close()
        for value in self._values.values():
            value.close()

    def _look_where_we_are(self) -> None:
        """Update the list of files if the process has moved or mounts may have changed."""
        path = self._memberships.path
        try:
            memberships, mountinfo = self._memberships.read(), self._seen[1]
            if memberships != self._seen[0] or time.monotonic() >= self._due:
                path = self._mountinfo
                mountinfo = os.fsdecode(path.read_bytes())
            if (memberships, mountinfo) != self._seen:
                path = self._memberships.path
                self._read_from(sources(parse_mounts(mountinfo), parse_memberships(memberships)))
                self._seen = (memberships, mountinfo)
        except (OSError, ValueError) as error:
            self._warnings.add(path, error)
        if time.monotonic() >= self._due:
            self._due = time.monotonic() + _RARE_SECONDS

    def _read_from(self, wanted: tuple[Source, ...]) -> None:
        for source in self._values.keys() - set(wanted):
            self._values.pop(source).close()
        self._values = {
            source: self._values.get(source) or _Value(source, self._warnings) for source in wanted
        }
