# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Quantities as text: durations, sizes, shares and energy, parsed and formatted.

Units of bytes are powers of 1024, as in Docker and Slurm.
"""

from __future__ import annotations

import re

TYPE_CHECKING = False  # As in typing, which takes longer to load than all of this.
if TYPE_CHECKING:
    from typing import Final

SIZE_PATTERN: Final = r"^[0-9]{1,15}[KMGTkmgt]$(?!\n)"
"""Regular expression of a size with a unit."""

_UNIT_BYTES: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
_SIZE: Final = re.compile(r"([0-9]{1,16})([KMGTkmgt]?)")
_BYTE_UNITS: Final = ("KiB", "MiB", "GiB", "TiB")

_UNIT_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST_SECONDS: Final = 36500 * _UNIT_SECONDS["d"]
_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd])")


def printable(text: str) -> str:
    """Replace unprintable characters: users choose the names of jobs."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


def quoted(value: object) -> str:
    """Return a value as Python writes it, without the middle of what is long or deep.

    So an error that quotes what somebody else has written stays one sentence.
    """
    import reprlib  # Errors are rare.

    limited = reprlib.Repr()
    limited.maxstring = limited.maxother = limited.maxlong = 160
    limited.maxlevel = 2
    return limited.repr(value)


def number(value: float | None, digits: int = 1) -> str:
    """Return a number as text; a dash for None."""
    return "-" if value is None else f"{value:.{digits}f}"


def duration(seconds: float | None) -> str:
    """Return seconds as text: 4.2 s, 3:05, 2:10:00; a dash for None."""
    if seconds is None:
        return "-"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def short(seconds: float | None) -> str:
    """Return seconds as text, less than one in milliseconds: 48 ms; a dash for None."""
    if seconds is None or seconds >= 0.9995:
        return duration(seconds)
    return f"{1000 * seconds:.0f} ms"


def cores(count: int) -> str:
    """Return ``"1 core"``, ``"2 cores"``."""
    return f"{count} core" if count == 1 else f"{count} cores"


def percent(share: float | None) -> str:
    """Return a share as a percentage; a dash for None."""
    return "-" if share is None else f"{share:.0%}"


def energy(joules: float | None) -> str:
    """Return joules as text: 820 J, 12.5 kJ, 3.40 kWh; a dash for None."""
    if joules is None:
        return "-"
    if joules < 999.5:
        return f"{joules:.3g} J"
    return f"{joules / 1000:.1f} kJ" if joules < 3.6e6 else f"{joules / 3.6e6:.2f} kWh"


def parse_duration(text: str) -> float:
    """Return a duration in seconds.

    Raises:
        ValueError: The text is not a positive number with a unit, or the duration is longer
            than a hundred years.
    """
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _UNIT_SECONDS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST_SECONDS:
        raise ValueError(f"must be a duration such as 12h or 90d, not {quoted(text)}")
    return float(seconds)


def parse_size(text: str) -> int:
    """Return a size in bytes; a number without a unit is in bytes.

    Raises:
        ValueError: The text is not a size.
    """
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ValueError(
            f"a size must be a number with K, M, G or T, such as 4G, not {quoted(text)}"
        )
    return int(found[1]) * _UNIT_BYTES[found[2].lower()]


def size_text(size: float | None) -> str:
    """Return a number of bytes as text: 512 B, 1.5 GiB; a dash for None."""
    if size is None:
        return "-"
    if size < 1024:
        return f"{size:.0f} B"
    for unit in _BYTE_UNITS:
        size /= 1024
        if size < 999.95:
            return f"{size:.1f} {unit}"
    return f"{size:.1f} {_BYTE_UNITS[-1]}"
