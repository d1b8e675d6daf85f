# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Pidfds: the end and the exit code of a process that is not a child of this one."""

from __future__ import annotations

import errno
import fcntl
import os
import struct
from dataclasses import dataclass

from tf_malleable.linux.processes.procfs import is_alive, read_stat
from tf_malleable.model import ProcessId

# PIDFD_GET_INFO with PIDFD_INFO_EXIT, linux/pidfd.h; since Linux 6.15.
_PIDFD_INFO = struct.Struct("QQ11Ii")
_PIDFD_GET_INFO = (3 << 30) | (_PIDFD_INFO.size << 16) | (0xFF << 8) | 11
_PIDFD_INFO_EXIT = 1 << 3
# There is no such process, or a thread now has its number, for which kernels differ.
_HAS_ENDED = (errno.ESRCH, errno.EINVAL, errno.ENOENT)


def open_pidfd(process: ProcessId) -> int | None:
    """Return a descriptor that becomes readable when the process ends.

    None if the process has already ended.

    Raises:
        OSError: There are no free descriptors.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except OSError as error:
        if error.errno in _HAS_ENDED:
            return None
        raise
    try:
        # is_alive() opens a file. Without a free descriptor, the process would seem to have ended.
        os.close(os.dup(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    if is_alive(process):
        return descriptor
    os.close(descriptor)
    return None


@dataclass(frozen=True)
class ProcessExit:
    """How a process has ended.

    Attributes:
        code: Exit code as in a shell: 0 … 255, or 128 + the number of the signal.
        signal: Number of the signal that ended the process; None if it exited.
    """

    code: int
    signal: int | None = None


def process_exit(process: ProcessId, pidfd: int) -> ProcessExit | None:
    """Return how a process has ended; None if the kernel does not report it.

    The source is /proc until the parent has waited for the process, and then the
    pidfd, which needs Linux 6.15. /proc shows it only to users who may trace the process, such
    as its own user and root.
    """
    # /proc first: the parent may wait for the process at any time.
    if _may_trace(process.pid):
        stat = read_stat(process.pid)
        if stat is not None and stat.start == process.start and stat.state == "Z":
            return _exit(stat.exit_status)
    request = bytearray(_PIDFD_INFO.pack(_PIDFD_INFO_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(pidfd, _PIDFD_GET_INFO, request)
    except OSError:
        return None
    mask, *_, status = _PIDFD_INFO.unpack(request)
    return _exit(status) if mask & _PIDFD_INFO_EXIT else None


def _may_trace(pid: int) -> bool:
    """Return whether this process may trace another one, so that /proc shows its exit code.

    Without the permission, /proc shows 0 instead.
    """
    try:
        os.readlink(f"/proc/{pid}/cwd")  # The kernel makes the same check for this link.
    except PermissionError:
        return False
    except OSError:
        pass  # A process that has ended has no directory.
    return True


def _exit(status: int) -> ProcessExit:
    if os.WIFEXITED(status):
        return ProcessExit(os.waitstatus_to_exitcode(status))
    return ProcessExit(128 + os.WTERMSIG(status), os.WTERMSIG(status))
