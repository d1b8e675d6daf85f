# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Whose a copy is: everybody's, or one user's.

A copy that everybody may read lies in the public area, but only if everybody may read the file
itself: each folder on the way can be entered by all, the file can be read by all, and none of
them has an access control list, whose mask makes the mode's bits mean something else. Of all
others each user has a copy of one's own. Who may read a file was checked by the kernel, when
the reader opened it; so this works where root may not read the source.
"""

from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path, PurePath
from typing import Final

PUBLIC: Final = "public"
ACL_ATTRIBUTE: Final = "system.posix_acl_access"
_ACLS: Final = frozenset({ACL_ATTRIBUTE, "system.nfs4_acl", "system.richacl"})
# A file system without such attributes has no access control lists of this kind.
_NONE: Final = (errno.ENODATA, errno.EOPNOTSUPP, errno.ENOSYS)


def area_of(path: Path, about: os.stat_result, uid: int) -> str:
    """Return the area of the copy of a file for one reader: public, or private/UID.

    Args:
        path: Of the file in the source, absolute and without links.
        about: Its status, from the reader's own descriptor.
        uid: The reader's.
    """
    return PUBLIC if is_everybodys(path, about) else private_area(uid)


def private_area(uid: int) -> str:
    """Return the area of one user's copies."""
    return f"private/{uid}"


def is_area(text: str) -> bool:
    """Return whether this is the name of an area."""
    kind, slash, uid = text.partition("/")
    return text == PUBLIC or (
        kind == "private" and bool(slash) and uid.isascii() and uid.isdecimal() and len(uid) <= 10
    )


def is_everybodys(path: Path, about: os.stat_result) -> bool:
    """Return whether every user may read a file by its name.

    Args:
        path: Of the file, absolute and without links.
        about: What it is to be; another file of that name is not meant.
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
    """Return the list by which a folder of mode 0700 lets one more user enter it, no more.

    As in linux/posix_acl_xattr.h: owner, that user, group, mask, others.
    """
    nobody = 0xFFFFFFFF
    entries = ((1, 7, nobody), (2, 1, uid), (4, 0, nobody), (16, 1, nobody), (32, 0, nobody))
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *each) for each in entries)
