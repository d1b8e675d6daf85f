# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Draws every measure as a share of its bar."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
import pairs

from container.verdicts import Verdict

_LINE_INCHES: Final = 0.36
_COLOURS: Final = {"PASS": "tab:blue", "MISS": "tab:orange"}


def draw(found: Sequence[Verdict], path: Path) -> None:
    """Write a picture of all that has a bar: at 1 it is just reached, right of it missed."""
    rows = [each for each in found if each.bar is not None and each.bar.value > 0]
    if not rows:
        return
    figure, axes = plt.subplots(figsize=(9, 1.2 + _LINE_INCHES * len(rows)))
    for line, each in enumerate(reversed(rows)):
        assert each.bar is not None
        low, value, high = (
            _share(v, each.bar) for v in (each.found.low, each.found.value, each.found.high)
        )
        colour = _COLOURS[pairs.verdict(each.found.value, each.bar)]
        axes.plot([low, high], [line, line], color=colour, alpha=0.5, linewidth=4)
        axes.plot([value], [line], "o", color=colour)
    axes.axvline(1, color="tab:red")
    axes.set_yticks(range(len(rows)), [each.text for each in reversed(rows)], fontsize=8)
    axes.set_xlabel("share of what is allowed; right of the line is missed")
    axes.set_xlim(left=0)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)


def _share(value: float, bar: pairs.Bar) -> float:
    """Return a value as a share of what is allowed: less is better."""
    if not math.isfinite(value):
        return 2.0
    return bar.value / value if bar.at_least else value / bar.value
