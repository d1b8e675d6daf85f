# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Sizes in bytes as text: 512M, 4G. Units are powers of 1024, as in Docker and Slurm."""

from __future__ import annotations

import re
from typing import Final

SIZE_PATTERN: Final = "^[0-9]{1,15}[KMGTkmgt]$"
"""What a size with a unit looks like, as a regular expression."""

_UNITS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,16})([KMGTkmgt]?)")
_NAMES: Final = ("KiB", "MiB", "GiB", "TiB")


def parse_size(text: str) -> int:
    """Return a size in bytes; a number without a unit is in bytes.

    Raises:
        ValueError: The text is not a size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(f"a size must be a number with K, M, G or T, such as 4G, not {text!r}")
    return int(found[1]) * _UNITS[found[2].lower()]


def size_text(size: float | None) -> str:
    """Return a number of bytes as text: 512 B, 1.5 GiB; a dash for None."""
    if size is None:
        return "-"
    if size < 1024:
        return f"{size:.0f} B"
    for unit in _NAMES:
        size /= 1024
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size:.1f} {_NAMES[-1]}"
