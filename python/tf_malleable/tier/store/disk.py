# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Disk queries: whether a copy is open, and which copies exist."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

from tf_malleable.tier.store import layout
from tf_malleable.tier.store.tenancy import PUBLIC


def is_open(path: Path) -> bool:
    """Return whether any other process has a file open or mapped."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        # The kernel grants a write lease only if the file is open nowhere else.
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_WRLCK)
        fcntl.fcntl(descriptor, fcntl.F_SETLEASE, fcntl.F_UNLCK)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def files(folder: Path) -> Iterator[Path]:
    """Yield the paths of all files below the folder of a store that may be copies."""
    for name in (PUBLIC, layout.PRIVATE):
        for where, _, names in os.walk(folder / name):
            for each in names:
                yield Path(where, each)


def is_at(path: str, where: str) -> bool:
    """Return whether a path equals another one, or is below it."""
    return path == where or path.startswith(where.rstrip("/") + "/")
