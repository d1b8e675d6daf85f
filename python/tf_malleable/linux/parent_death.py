# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tells a process of the end of the one that started it, however that ends (prctl(2))."""

from __future__ import annotations

import os
import signal
from typing import Final

# <linux/prctl.h>
_PR_SET_PDEATHSIG: Final = 1


def signal_at_end_of_parent(number: int, parent: int) -> None:
    """Have the kernel send this process a signal when the thread that started it ends.

    That holds for the program that this process becomes, too, and not for its children.

    Args:
        number: Of the signal.
        parent: Process id of the parent. If it has ended before this call, the signal comes at
            once; the kernel alone would never send it.

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
