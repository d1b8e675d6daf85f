# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The host's users: their names, and those that our user namespace does not have."""

from __future__ import annotations

import pwd
from functools import lru_cache
from pathlib import Path

_PROC = Path("/proc")
# All user ids, as they are outside.
_EVERYONE = ["0", "0", "4294967295"]


@lru_cache(maxsize=256)
def user_name(uid: int) -> str:
    """Return the user's name, or the user id as text if there is no such user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def is_foreign(uid: int, proc: Path = _PROC) -> bool:
    """Return whether the kernel gives this uid to users that our user namespace does not have.

    So in a container, the host's root may be one.

    Args:
        uid: As the kernel has told it.
        proc: Where procfs is mounted.
    """
    try:
        mapped = (proc / "self" / "uid_map").read_text().split()
        overflow = int((proc / "sys" / "kernel" / "overflowuid").read_text())
    except (OSError, ValueError):
        return False
    return mapped != _EVERYONE and uid == overflow
