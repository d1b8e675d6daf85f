# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Common style of all pictures: colours, frames, and reproducible files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart, without
# yellow and black, which are hard to see on white or mean something else here.
COLOURS: Final = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
PAUSED: Final = "#8A8A8A"
ALARM: Final = "#B00020"
GRID: Final = "#DDDDDD"

# An offset, and the lengths of dashes and gaps, in line widths.
Dashes = tuple[float, tuple[float, ...]]
DASHES: Final[Dashes] = (0, (4, 2))
SMALL: Final = 8.5
MEDIUM: Final = 9.0


def title(axes: Axes, text: str) -> None:
    """Write a title at the left, where it is read first."""
    axes.set_title(text, loc="left", fontsize=11, fontweight="bold")


def plain(text: str, most: int) -> str:
    """Return an external text escaped to be drawn literally, cut to at most `most` characters."""
    short = text if len(text) <= most else f"{text[: most - 1]}…"
    # A dollar sign would start a formula.
    return short.replace("$", r"\$")


def frame(axes: Axes, grid: str = "x") -> None:
    """Leave the frame open at the top and right, and draw a faint grid behind everything.

    Args:
        axes: Axes to frame.
        grid: ``"x"`` or ``"y"``: the axis whose values are to be read off.
    """
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y" if grid == "y" else "x", color=GRID, linewidth=0.6)
    axes.set_axisbelow(True)


def write(figure: Figure, path: Path) -> None:
    """Write a picture in the format that the file's suffix names.

    Raises:
        OSError: The file cannot be written.
        ValueError: The suffix is not that of a picture format.
    """
    # No date and no random names: the same history gives the same file.
    metadata = {"Date": None} if path.suffix.lower() == ".svg" else None
    with rc_context({"svg.hashsalt": "tf_malleable"}):
        figure.savefig(path, dpi=140, metadata=metadata)
