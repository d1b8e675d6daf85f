# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Memory of the host and of a process: available bytes, pressure (PSI), private use."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tf_malleable.linux import files

_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_MEMINFO: Final = Path("/proc/meminfo")
_PRESSURE: Final = Path("/proc/pressure/memory")


@dataclass(frozen=True)
class Memory:
    """The memory of this host.

    Attributes:
        total: Total memory in bytes.
        available: Memory that new processes could use without swapping, in bytes.
        stalled: Share of the last ten seconds, 0 … 1, in which some process waited for
            memory; None if the kernel does not report it (no PSI).
    """

    total: int
    available: int
    stalled: float | None


def read_memory() -> Memory | None:
    """Return the current memory of this host; None if the kernel does not report it."""
    try:
        total, available = _parse_meminfo(_MEMINFO.read_text())
    except (OSError, ValueError, KeyError):
        return None
    try:
        stalled: float | None = _parse_pressure(_PRESSURE.read_text())
    except (OSError, ValueError):
        stalled = None
    return Memory(total, available, stalled)


def _parse_meminfo(text: str) -> tuple[int, int]:
    values = {}
    for line in text.splitlines():
        name, _, rest = line.partition(":")
        if name in ("MemTotal", "MemAvailable"):
            values[name] = int(rest.split()[0]) * 1024
    return values["MemTotal"], values["MemAvailable"]


def _parse_pressure(text: str) -> float:
    """Return avg10 of the line `some`, as a share; raise ValueError if it is missing."""
    for line in text.splitlines():
        kind, *fields = line.split()
        for field in fields:
            name, _, value = field.partition("=")
            if (kind, name) == ("some", "avg10"):
                return float(value) / 100
    raise ValueError(f"no pressure of memory: {text!r}")


def process_memory(pid: int) -> int:
    """Return the private memory of a process in bytes; 0 if there is no such process.

    That is the resident memory without files and shared memory: the bytes that would be free
    if the process had never run. After a fork, parent and child both count the pages that
    neither has written to since.
    """
    try:
        _, resident, shared, *_ = files.read(f"/proc/{pid}/statm").split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * _PAGE
