# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""File systems: their types, as the kernel lists them in /proc/self/mountinfo."""

from __future__ import annotations

import os
from typing import Final

from tf_malleable.linux import files

_OF_SERVERS: Final = ("nfs", "nfs4", "cifs", "smb3", "ceph", "lustre", "9p", "afs", "beegfs")


def type_of(path: str, mountinfo: str) -> str:
    """Return the type of the file system that contains a path, such as ``"ext4"``.

    Args:
        path: Absolute path without symbolic links.
        mountinfo: Text of /proc/self/mountinfo, in the format of proc_pid_mountinfo(5).
    """
    best, found = -1, ""
    # Users choose the names of their mount points, in which other characters may end a line.
    for line in filter(None, mountinfo.split("\n")):
        fields, _, after = line.partition(" - ")
        point = files.unescaped(fields.split(" ")[4])
        is_above = path == point or path.startswith(point.rstrip("/") + "/")
        # Of mounts at the same point, the last one covers the others.
        if is_above and len(point) >= best:
            best, found = len(point), after.split(" ")[0]
    return found


def mount_table() -> str:
    """Return the text of /proc/self/mountinfo; bytes that are not UTF-8 as in paths."""
    return os.fsdecode(files.read_whole("/proc/self/mountinfo"))


def is_on_file_server(path: str) -> bool:
    """Return whether a file server may change files below a path without the kernel's knowledge."""
    return type_of(path, mount_table()) in _OF_SERVERS
