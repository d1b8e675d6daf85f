# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How many CPUs this process may use, read again and again.

That is the least of the CPU affinity, the cpuset and the CPU quota, of the process's
own cgroup and of every parent that can be seen from here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tf_malleable.linux.cgroup import Source, parse_memberships, parse_mounts, sources

_OWN: Final = Path("/proc/self")
# More than any file of a cgroup has; what is longer is none of the kernel's.
_LONGEST: Final = 1 << 14
_LONGEST_REASON: Final = 200
# What seldom comes later: a controller that is enabled, and a mount, of which there
# may be thousands to look through.
_RARE_SECONDS: Final = 10.0


class Warnings:
    """Says of a file that it is passed over, once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: set[Path] = set()

    def add(self, path: Path, error: Exception) -> None:
        """Say it, unless that has been said of this file before."""
        if path not in self._said:
            self._said.add(path)
            reason = error.strerror if isinstance(error, OSError) else None
            self._say(f"{path} is ignored: {reason or str(error)[:_LONGEST_REASON]}")


class _File:
    """A file that is read again and again, and kept open for that.

    Attributes:
        path: Where it is.
        content: What was last read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.content = b""
        self._descriptor: int | None = None
        self._identity = (0, 0)

    def read(self) -> str:
        """Return what is in it now.

        Raises:
            OSError: It is not there, or cannot be read.
            ValueError: It cannot have such a name.
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
            # Of a cgroup that is gone; one of its name may have come.
            self.close()
            raise

    def descriptor(self) -> int | None:
        """Return the number it was opened under, None if it is not open."""
        return self._descriptor

    def close(self) -> None:
        """Close it, if it is open."""
        if self._links() is not None and self._descriptor is not None:
            os.close(self._descriptor)
        self._descriptor = None

    def _links(self) -> int | None:
        """Return how many names the open file has, None if there is none of ours open.

        The program may have closed our descriptor, as programs that become daemons
        close all, and have the number for a file of its own.
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
    """What a source said last that made sense."""

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
            # What never was there is a controller that is not enabled; what fails once
            # can be a cgroup that we have just left.
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
    """The CPUs of this process, read anew each time. Not thread-safe."""

    def __init__(self, warnings: Warnings, own: Path = _OWN) -> None:
        """Prepare to read.

        Args:
            warnings: What cannot be read or makes no sense is reported here.
            own: Where "cgroup" and "mountinfo" of this process are.
        """
        self._warnings = warnings
        self._memberships = _File(own / "cgroup")
        self._mountinfo = own / "mountinfo"
        self._seen = ("", "")
        self._values: dict[Source, _Value] = {}
        self._pid = os.getpid()
        self._affinity: set[int] = set()
        self._glances: list[tuple[int, bytes]] = []
        self._due = 0.0

    def read(self) -> float:
        """Return how many there are: a fraction where a quota says so.

        What cannot be read or makes no sense keeps its last value.
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
        """Return whether there is anything new to read.

        It is asked many times a second in somebody else's program, so it is only a
        glance: no decoding, no parsing, nothing that is not there.
        """
        try:
            for descriptor, content in self._glances:
                if os.pread(descriptor, _LONGEST, 0) != content:
                    return True
        except OSError:
            return True
        return os.sched_getaffinity(self._pid) != self._affinity or time.monotonic() >= self._due

    def written_to(self) -> tuple[Path, ...]:
        """Return the files that whoever changes the CPUs writes to."""
        paths = [path for source in self._values for path in source.paths]
        # What is in force in v2 is not what is written to.
        asked_for = [path.with_name("cpuset.cpus") for path in paths if "cpuset" in path.name]
        return tuple(dict.fromkeys(paths + asked_for))

    def close(self) -> None:
        """Close the files; reading again would open them again."""
        self._glances = []
        self._memberships.close()
        for value in self._values.values():
            value.close()

    def _look_where_we_are(self) -> None:
        """Find out what to read, if the process has moved or there may be other mounts."""
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
