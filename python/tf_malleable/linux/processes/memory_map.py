# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""What a process has in its memory: the files that it has mapped, and its environment."""

from __future__ import annotations

from typing import Final

# In bytes. A training has some 300,000; a process can have mappings for 300,000,000.
_LONGEST_MAPS: Final = 4 << 20
_LONGEST_ENVIRONMENT: Final = 1 << 20


def memory_map(pid: int) -> bytes | None:
    """Return /proc/PID/maps of a process, at most 4 MiB: a line for each mapping, with its file.

    The kernel formats each line: a few milliseconds for a process with thousands.

    Returns:
        The text; None if the process is gone or may not be inspected.
    """
    return _read(f"/proc/{pid}/maps", _LONGEST_MAPS)


def environment(pid: int) -> bytes | None:
    """Return the variables that a process was started with, at most 1 MiB, each with a zero byte.

    A process can write there what it likes.

    Returns:
        The text; None if the process is gone or may not be inspected.
    """
    return _read(f"/proc/{pid}/environ", _LONGEST_ENVIRONMENT)


def _read(path: str, most: int) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read(most)
    except OSError:
        return None
