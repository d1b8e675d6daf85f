# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tenancy: public copies for all users, and private copies for one user.

A copy is in the public area only if every user may read the file itself: every user can enter
each folder on the path and read the file, and none of them has an ACL, whose mask changes the
meaning of the mode bits. Of any other file, each user has a private copy. The kernel checked the
read permission when the reader opened the file, so this also works if root may not read the
source.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path, PurePath
from typing import Final

from tf_malleable.linux.file_status import FileStatus

PUBLIC: Final = "public"
ACL_ATTRIBUTE: Final = "system.posix_acl_access"
_ACLS: Final = frozenset({ACL_ATTRIBUTE, "system.nfs4_acl", "system.richacl"})
# Errors of a file system without such attributes, which has no ACLs of this kind.
_NONE: Final = (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOSYS)


def area_of(path: Path, about: os.stat_result | FileStatus, uid: int) -> str:
    """Return the area of the copy of a file for one reader: public, or private/UID.

    Args:
        path: Absolute path of the file in the source, without symbolic links.
        about: Status of the file, from the reader's own descriptor.
        uid: User id of the reader.
    """
    return PUBLIC if is_everybodys(path, about) else private_area(uid)


def private_area(uid: int) -> str:
    """Return the area of one user's copies."""
    return f"private/{uid}"


def is_everybodys(path: Path, about: os.stat_result | FileStatus) -> bool:
    """Return whether every user may read a file by its path.

    Args:
        path: Absolute path of the file, without symbolic links.
        about: Expected status; False is returned if the path leads to another file.
    """
    try:
        named = os.stat(path, follow_symlinks=False)
        if (named.st_dev, named.st_ino) != (about.st_dev, about.st_ino):
            return False
        if not named.st_mode & stat.S_IROTH or _has_acl(path):
            return False
        for folder in PurePath(path).parents:
            entry = os.stat(folder, follow_symlinks=False)
            if not stat.S_ISDIR(entry.st_mode) or not entry.st_mode & stat.S_IXOTH:
                return False
            if _has_acl(Path(folder)):
                return False
    except OSError:
        return False
    return True


def _has_acl(path: Path) -> bool:
    try:
        return not _ACLS.isdisjoint(os.listxattr(path, follow_symlinks=False))
    except OSError as error:
        if error.errno in _NONE:
            return False
        raise


def search_acl(uid: int) -> bytes:
    """Return an ACL that lets one more user enter a folder of mode 0700, but not list it.

    The format is that of linux/posix_acl_xattr.h: owner, that user, group, mask, others.
    """
    nobody = 0xFFFFFFFF
    entries = ((1, 7, nobody), (2, 1, uid), (4, 0, nobody), (16, 1, nobody), (32, 0, nobody))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
