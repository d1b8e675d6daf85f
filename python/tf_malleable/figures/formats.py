# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Picture formats; a module of its own, as commands check a path before they load Matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Final

SUFFIXES: Final = (".png", ".svg")
# Maximum number of histories in one Gantt chart, one above the other.
MOST_PANELS: Final = 40


def is_picture(path: Path) -> bool:
    """Return whether a file's suffix, in upper or lower case, names one of the formats."""
    return path.suffix.lower() in SUFFIXES
