# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whether a process is in a container, seen from outside.

The kernel reports root in a container as root, unless it has a user namespace. Its PID
namespace and its cgroup tell the two apart, and a process cannot leave either by forking.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cache

from tf_malleable.linux import files
from tf_malleable.linux.cgroup import container_ids


@dataclass(frozen=True)
class Confinement:
    """What confines a process.

    Attributes:
        container: Id of its innermost container, from the names of its cgroups; "" if we share
            it or there is none.
        namespace: Whether it is in a PID namespace that we are not in.
    """

    container: str
    namespace: bool

    def __bool__(self) -> bool:
        return self.namespace or bool(self.container)


def confinement_of(pid: int) -> Confinement | None:
    """Return what confines a process.

    None if there is no such process, or we may not see it.
    """
    try:
        status = files.read(f"/proc/{pid}/status")
    except OSError:
        return None
    # Its pids from our PID namespace down to its own.
    _, _, pids = status.partition(b"\nNSpid:")
    is_inside = len(pids.partition(b"\n")[0].split()) > 1
    others = [each for each in container_ids(pid) if each not in _own_container_ids()]
    return Confinement(others[-1] if others else "", is_inside)


@cache
def _own_container_ids() -> frozenset[str]:
    return frozenset(container_ids(os.getpid()))
