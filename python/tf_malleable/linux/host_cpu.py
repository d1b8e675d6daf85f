# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""CPU time of the whole host, from /proc/stat."""

from __future__ import annotations

import os
from typing import Final

from tf_malleable.linux import files

_TICKS: Final = os.sysconf("SC_CLK_TCK")
# user nice system idle iowait irq softirq steal …; user already includes guest time.
_BUSY = (1, 2, 3, 6, 7)
_LONGEST = 4096


class HostCpu:
    """Reader of /proc/stat, whose resolution is a hundredth of a second for each CPU.

    Args:
        path: Path of the file; differs in tests.

    Attributes:
        cpus: Number of online CPUs of the host.
    """

    def __init__(self, path: str = "/proc/stat") -> None:
        self._path = path
        self.cpus = os.cpu_count() or 1
        self._last = self._read()

    def busy_since(self) -> float:
        """Return the CPU time in seconds since the last call; 0 if the counters went back."""
        last, self._last = self._last, self._read()
        return max(0.0, self._last - last)

    def _read(self) -> float:
        fields = files.read(self._path, _LONGEST).split(b"\n", 1)[0].split()
        return sum(int(fields[index]) for index in _BUSY) / _TICKS
