# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Parent-death signal: a signal to this process when its parent ends for any reason (prctl(2))."""

from __future__ import annotations

import os
import signal
from typing import Final

# <linux/prctl.h>
_PR_SET_PDEATHSIG: Final = 1


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
