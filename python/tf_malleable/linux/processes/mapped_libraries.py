# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shared libraries that a process has mapped into its memory."""

from __future__ import annotations

import os


def mapped_libraries(pid: int) -> frozenset[str] | None:
    """Return the file names of the files that a process has mapped, without their folders.

    The kernel formats a line for each mapping: a few milliseconds for a process with thousands.

    Returns:
        The names; None if the process is gone or may not be inspected.
    """
    try:
        with open(f"/proc/{pid}/maps", "rb") as file:
            text = file.read()
    except OSError:
        return None
    paths = {line[line.index(b"/") :] for line in text.splitlines() if b"/" in line}
    return frozenset(os.path.basename(os.fsdecode(path)) for path in paths)
