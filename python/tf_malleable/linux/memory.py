# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""How much memory this host has left, how much it lacks, and what a process uses."""

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
        total: All there is, in bytes.
        available: What new processes could use without swapping, in bytes.
        stalled: Share of the last ten seconds, 0 … 1, in which some process waited for
            memory; None if the kernel does not tell (no PSI).
    """

    total: int
    available: int
    stalled: float | None


def read_memory() -> Memory | None:
    """Return the memory of this host now; None if the kernel does not tell."""
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
    """Return avg10 of the line `some`, as a share; raise ValueError if there is none."""
    for line in text.splitlines():
        kind, *fields = line.split()
        for field in fields:
            name, _, value = field.partition("=")
            if (kind, name) == ("some", "avg10"):
                return float(value) / 100
    raise ValueError(f"no pressure of memory: {text!r}")


def process_memory(pid: int) -> int:
    """Return the memory in bytes that a process has to itself; 0 if there is none such.

    That is its resident memory without files and shared memory: what would be free if it
    had never run. After a fork, parent and child both count the pages that neither has
    written to since.
    """
    try:
        _, resident, shared, *_ = files.read(f"/proc/{pid}/statm").split()
    except (OSError, ValueError):
        return 0
    return max(0, int(resident) - int(shared)) * _PAGE
