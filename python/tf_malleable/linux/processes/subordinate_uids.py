# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Subordinate uids: the user ids that a user may take in user namespaces, by subuid(5).

To the kernel, each is another user. A limit per user must count them all for their owner, who
otherwise has 65,536 times the limit. Rights stay those of the uid alone.
"""

from __future__ import annotations

import os
import pwd
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final, NamedTuple

FILE: Final = Path("/etc/subuid")
"""File of the ranges of this host."""


class _Range(NamedTuple):
    owner: int
    uids: range


def account_of(uid: int, file: Path | None = None) -> int:
    """Return the user id that a limit per user counts a uid for.

    That is the owner of the range of subordinate uids that contains the uid. It is the uid itself
    without such a range, for a user of the host, and in a range of root, who has no limits.

    Args:
        uid: User id.
        file: File in the format of subuid(5); None for that of this host.
    """
    file = FILE if file is None else file
    try:
        about = os.stat(file)
    except OSError:
        return uid
    for each in _ranges(file, about.st_ino, about.st_mtime_ns, about.st_size):
        if uid in each.uids:
            return each.owner if each.owner and not _is_user(uid) else uid
    return uid


# The inode and the numbers after it are there to read a changed file again.
@lru_cache(maxsize=1)
def _ranges(file: Path, *_: int) -> tuple[_Range, ...]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return ()
    found = []
    for line in lines:
        with suppress(ValueError, KeyError):
            owner, first, count = line.split(":")
            uids = range(_number(first), _number(first) + _number(count))
            found.append(_Range(_user_id(owner), uids))
    return tuple(found)


def _user_id(owner: str) -> int:
    try:
        return _number(owner)
    except ValueError:
        return pwd.getpwnam(owner).pw_uid


def _number(text: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ValueError(f"not a number: {text!r}")
    return int(text)


def _is_user(uid: int) -> bool:
    try:
        pwd.getpwuid(uid)
    except (KeyError, OverflowError):
        return False
    return True
