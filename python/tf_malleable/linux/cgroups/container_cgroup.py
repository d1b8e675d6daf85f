# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The cgroup of a container, by its full path in each hierarchy.

A user can make cgroups of any name where this is delegated to the user, so the name of a cgroup
does not tell which container a process belongs to. The path of the container's first process,
which the engine reports, does: only the container's owner can move a process there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tf_malleable.linux import files
from tf_malleable.linux.cgroups import cgroup
from tf_malleable.linux.processes import procfs
from tf_malleable.model import ProcessId


@dataclass(frozen=True)
class ContainerCgroup:
    """The cgroup of a container.

    Attributes:
        paths: Its path by controller, in the hierarchies in which it has one; the key for v2 is "".
    """

    paths: Mapping[str, str]

    def has(self, pid: int) -> bool:
        """Return whether a process is in this cgroup, or in one below, in every hierarchy."""
        own = _memberships(pid)
        return bool(self.paths) and all(
            f"{own.get(controller, '')}/".startswith(f"{path}/")
            for controller, path in self.paths.items()
        )


def cgroup_of(container: str, first: ProcessId) -> ContainerCgroup:
    """Return the cgroup of a container; without paths if the container has none of its own.

    Args:
        container: Full id of the container.
        first: First process of the container, as its engine reports it. It may have moved to a
            cgroup below that of the container.
    """
    found = _memberships(first.pid)
    paths = {controller: _up_to(container, path) for controller, path in found.items()}
    # Last: another process may have got the pid meanwhile.
    if not procfs.is_alive(first):
        return ContainerCgroup({})
    return ContainerCgroup({controller: path for controller, path in paths.items() if path})


def _up_to(container: str, path: str) -> str:
    """Return a path up to the name that contains the container's id; empty if there is none."""
    names = path.split("/")
    for depth, name in enumerate(names, 1):
        if container in name:
            return "/".join(names[:depth])
    return ""


def _memberships(pid: int) -> dict[str, str]:
    try:
        return cgroup.parse_memberships(files.read_text(f"/proc/{pid}/cgroup"))
    except (OSError, ValueError):
        return {}
