# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whether a process is in a container, seen from outside.

The kernel reports root in a container as root, unless it has a user namespace. Its PID
namespace and its cgroup tell the two apart, and a process cannot leave either by forking.
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from tf_malleable.linux.cgroup import container_ids


def is_confined(pid: int) -> bool | None:
    """Return whether a process is in a container or PID namespace that we are not in.

    None if there is no such process, or we may not see it.
    """
    try:
        status = Path(f"/proc/{pid}/status").read_text(errors="replace")
    except OSError:
        return None
    for line in status.splitlines():
        # Its pids from our PID namespace down to its own.
        if line.startswith("NSpid:") and len(line.split()) > 2:
            return True
    return bool(container_id(pid))


def container_id(pid: int) -> str:
    """Return the id of the innermost container of a process; "" if we share it or there is none.

    The id is read from the names of its cgroups.
    """
    others = [each for each in container_ids(pid) if each not in _own_container_ids()]
    return others[-1] if others else ""


@cache
def _own_container_ids() -> frozenset[str]:
    return frozenset(container_ids(os.getpid()))
