# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Durations as text: 45s, 30m, 12h, 90d."""

from __future__ import annotations

import re
from typing import Final

_SECONDS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST: Final = 36500 * _SECONDS["d"]
_DURATION: Final = re.compile(r"([0-9]{1,9})([smhd])")


def parse_duration(text: str) -> float:
    """Return a duration in seconds.

    Raises:
        ValueError: The text is not a positive number with a unit, or the duration is longer
            than a hundred years.
    """
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if not 0 < seconds <= _LONGEST:
        raise ValueError(f"must be a duration such as 12h or 90d, not {text!r}")
    return float(seconds)
