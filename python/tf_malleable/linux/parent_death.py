# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Tells a process of the end of the one that started it, however that ends (prctl(2))."""

from __future__ import annotations

from typing import Final

# <linux/prctl.h>
_PR_SET_PDEATHSIG: Final = 1


def signal_at_end_of_parent(number: int) -> None:
    """Have the kernel send this process a signal when the thread that started it ends.

    That holds for the program that this process becomes, too, and not for its children.
    """
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, number)
