# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Users of the host: names, and user ids that are not mapped into our user namespace."""

from __future__ import annotations

import grp
import os
import pwd
from functools import lru_cache

# The map of the initial user namespace: all user ids, unchanged.
_EVERYONE = ["0", "0", "4294967295"]


@lru_cache(maxsize=256)
def user_name(uid: int) -> str:
    """Return the user's name, or the user id as text if there is no such user."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def is_private_group(gid: int, uid: int) -> bool:
    """Return whether a group is the one that a user has alone, as with a umask of 002.

    It has the user's name, is the user's own, and has no other members.
    """
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    is_own = user.pw_gid == gid and group.gr_name == user.pw_name
    return is_own and set(group.gr_mem) <= {user.pw_name}


def is_foreign(uid: int, proc: str | os.PathLike[str] = "/proc") -> bool:
    """Return whether this is the kernel's uid for users that our user namespace does not map.

    In a container, the host's root may be such a user.

    Args:
        uid: User id as reported by the kernel.
        proc: Mount point of procfs.
    """
    try:
        mapped = _words(os.path.join(proc, "self", "uid_map"))
        overflow = int(*_words(os.path.join(proc, "sys", "kernel", "overflowuid")))
    except (OSError, ValueError):
        return False
    return mapped != _EVERYONE and uid == overflow


def _words(path: str) -> list[str]:
    with open(path) as file:
        return file.read().split()
