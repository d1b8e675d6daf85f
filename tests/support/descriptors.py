# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""The descriptors of a process that runs on meanwhile."""

from __future__ import annotations

import os
from contextlib import suppress


def open_files(pid: int) -> dict[int, str]:
    """Return what each descriptor refers to, without those that are closed meanwhile."""
    found = {}
    for name in os.listdir(f"/proc/{pid}/fd"):
        with suppress(FileNotFoundError):
            found[int(name)] = os.readlink(f"/proc/{pid}/fd/{name}")
    return found
