# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Detection of processes in containers, from outside.

The kernel reports root in a container as root, unless the container has a user namespace. The
PID namespace and the cgroup of a process tell the two apart, and a process cannot leave either
by forking.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from tf_malleable.linux import files
from tf_malleable.linux.cgroups.cgroup import container_ids


@dataclass(frozen=True)
class Confinement:
    """Container and PID namespace of a process, as far as they are not our own.

    Attributes:
        container: Id of the innermost container, from the cgroup names of the process; "" if
            there is none or this process is in it, too.
        namespace: Whether the process is in a PID namespace that this process is not in.
    """

    container: str
    namespace: bool

    def __bool__(self) -> bool:
        return self.namespace or bool(self.container)


def confinement_of(pid: int) -> Confinement | None:
    """Return the confinement of a process.

    None if there is no such process, or it is not visible to this process.
    """
    try:
        status = files.read(f"/proc/{pid}/status")
    except OSError:
        return None
    # Pids of the process, from our PID namespace down to its own.
    _, _, pids = status.partition(b"\nNSpid:")
    is_inside = len(pids.partition(b"\n")[0].split()) > 1
    others = [each for each in container_ids(pid) if each not in _own_container_ids()]
    return Confinement(others[-1] if others else "", is_inside)


@cache
def _own_container_ids() -> frozenset[str]:
    return frozenset(container_ids(os.getpid()))
