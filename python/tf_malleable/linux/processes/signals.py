# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Signals: to several processes, and from the kernel at the end of a parent."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from tf_malleable.linux.processes.pidfds import open_pidfd
from tf_malleable.model import ProcessId

# <linux/prctl.h>
_PR_SET_PDEATHSIG: Final = 1


def send(processes: Iterable[ProcessId], number: signal.Signals) -> None:
    """Send a signal to these processes; skip those that are gone or not permitted.

    The pid may belong to another process by now. So the signal goes through a pidfd of the
    process: once it is open, it refers to one process only, whose start time is then checked.
    """
    for process in processes:
        with suppress(OSError):
            pidfd = open_pidfd(process)
            if pidfd is None:
                continue
            try:
                signal.pidfd_send_signal(pidfd, number)
            finally:
                os.close(pidfd)


def signal_at_end_of_parent(number: int, parent: int) -> None:
    """Have the kernel send this process a signal when the thread that created it ends.

    The setting survives exec; children do not inherit it.

    Args:
        number: Number of the signal.
        parent: Pid of the parent. If the parent ended before this call, this function raises
            the signal at once; the kernel alone would never send it.

    Raises:
        OSError: The kernel refuses.
    """
    import ctypes

    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, number) != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl(PR_SET_PDEATHSIG): {os.strerror(code)}")
    if os.getppid() != parent:
        signal.raise_signal(number)
