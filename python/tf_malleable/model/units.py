# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Formatting of quantities and names for people."""

from __future__ import annotations


def printable(text: str) -> str:
    """Replace unprintable characters: users choose the names of jobs."""
    return "".join(letter if letter.isprintable() else "?" for letter in text)


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
