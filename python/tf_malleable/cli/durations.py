# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Durations as options: 45s, 30m, 12h, 90d."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_LONGEST = 36500 * _SECONDS["d"]

if TYPE_CHECKING:
    _Base = click.ParamType[float]
else:  # Generic from click 8.4 on.
    _Base = click.ParamType


class Duration(_Base):
    """A positive number with a unit; its value is in seconds."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the duration in seconds."""
        if isinstance(value, float):
            return value
        found = re.fullmatch(r"([0-9]{1,9})([smhd])", str(value))
        seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
        if not 0 < seconds <= _LONGEST:
            self.fail(f"must be a duration such as 12h or 90d, not {str(value)!r}", param, ctx)
        return float(seconds)
