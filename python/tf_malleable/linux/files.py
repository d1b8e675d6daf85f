# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Small files of the kernel: thousands are read every minute.

A file object, or a path of pathlib, takes longer than the kernel does.
"""

from __future__ import annotations

import os
from typing import Final

_MOST: Final = 65536


def read(path: str, most: int = _MOST) -> bytes:
    """Return what a file of the kernel says, at most so many bytes.

    For files that are made in one piece. Of a long list, such as cgroup.procs, one read returns
    a part.

    Raises:
        OSError: It cannot be read, or its process has ended.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, most)
    finally:
        os.close(descriptor)


def read_whole(path: str) -> bytes:
    """Return what a file of the kernel says, however long.

    Raises:
        OSError: As read().
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        whole = piece = os.read(descriptor, _MOST)
        while piece:
            piece = os.read(descriptor, _MOST)
            whole += piece
        return whole
    finally:
        os.close(descriptor)


def read_text(path: str, most: int = _MOST) -> str:
    """Return the same as text; bytes that are no UTF-8 become U+FFFD.

    Raises:
        OSError: As read().
    """
    return read(path, most).decode(errors="replace")
