# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Status of a file as the kernel has cached it, by statx(2), which Python lacks before 3.15.

os.stat() also asks for the access time. After a read, a FUSE file system must ask its server for
that.
"""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Final, NamedTuple

# <linux/stat.h>, <fcntl.h>
_STATUS: Final = struct.Struct("<IIQIIIH2xQQQQ qI4x qI4x qI4x qI4x IIII")
_Buffer: Final = ctypes.c_char * 256
_STATX_BASIC_STATS: Final = 0x7FF
_AT_FDCWD: Final = -100
_AT_SYMLINK_NOFOLLOW: Final = 0x100
_AT_EMPTY_PATH: Final = 0x1000
_AT_STATX_DONT_SYNC: Final = 0x4000

_libc = ctypes.CDLL(None, use_errno=True)
# Keeps the GIL: what is asked of a descriptor never waits, and to give the GIL away and take it
# back costs more than the call.
_libc_with_gil = ctypes.PyDLL(None, use_errno=True)


class FileStatus(NamedTuple):
    """Status of a file; names and units as in os.stat_result."""

    st_mode: int
    st_ino: int
    st_dev: int
    st_nlink: int
    st_uid: int
    st_gid: int
    st_size: int
    st_blksize: int
    st_blocks: int
    st_atime_ns: int
    st_mtime_ns: int
    st_ctime_ns: int


def cached_status(file: int | str) -> FileStatus:
    """Return what the kernel knows of a file, without asking a file server.

    Args:
        file: Descriptor, or path whose last component is not followed if it is a link.

    Raises:
        OSError: The file cannot be looked at.
    """
    found = _Buffer()
    if isinstance(file, int):
        flags = _AT_STATX_DONT_SYNC | _AT_EMPTY_PATH
        failed = _libc_with_gil.statx(file, b"", flags, _STATX_BASIC_STATS, found)
    else:
        flags = _AT_STATX_DONT_SYNC | _AT_SYMLINK_NOFOLLOW
        failed = _libc.statx(_AT_FDCWD, os.fsencode(file), flags, _STATX_BASIC_STATS, found)
    if failed:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    (
        _, block_size, _, links, uid, gid, mode, inode, size, blocks, _,
        atime_s, atime_ns, _, _, ctime_s, ctime_ns, mtime_s, mtime_ns,
        _, _, major, minor,
    ) = _STATUS.unpack_from(found)  # fmt: skip
    return FileStatus(
        mode, inode, os.makedev(major, minor), links, uid, gid, size, block_size, blocks,
        atime_s * 10**9 + atime_ns, mtime_s * 10**9 + mtime_ns, ctime_s * 10**9 + ctime_ns,
    )  # fmt: skip
