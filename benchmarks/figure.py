# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Draws the ratios against their bars."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from names import WORKLOADS
from report import Row

# No red: that is the bar's.
_COLOURS: Final = dict(
    zip(
        WORKLOADS,
        ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:cyan"),
        strict=True,
    )
)
_BAR: Final = "tab:red"
_GAP: Final = 1.5
# What is of interest lies here; whatever does not is written at the edge.
_LOW: Final = 0.85
_HIGH: Final = 1.15
_LINE: Final = 18


def draw(found: Sequence[Row], path: Path) -> None:
    """Write a picture of all rows that are ratios, group by group."""
    ratios = [row for row in found if row.unit == "ratio"]
    if not ratios:
        return
    figure, axes = plt.subplots(figsize=(13, 5.5))
    ticks: list[tuple[float, str]] = []
    place = 0.0
    for measure, label in dict.fromkeys((row.measure, row.label) for row in ratios):
        members = [row for row in ratios if (row.measure, row.label) == (measure, label)]
        _draw_bar(axes, members[0], place - 0.6, place + len(members) - 0.4)
        for number, row in enumerate(members):
            _draw_row(axes, row, place + number)
        ticks.append((place + (len(members) - 1) / 2, f"{measure}\n{_broken(label)}"))
        place += len(members) + _GAP
    axes.axhline(1, color="black", linewidth=0.8)
    axes.set_ylim(_LOW, _HIGH)
    axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks], fontsize=8)
    axes.set_ylabel("throughput, ours / stock\n(enlarge: share of the ideal gain)")
    axes.set_title("Median and 95 % CI; dashed: the bar; hollow: missed")
    axes.grid(axis="y", alpha=0.3)
    drawn = [name for name in WORKLOADS if any(row.workload == name for row in ratios)]
    axes.legend(
        handles=[Line2D([], [], marker="o", ls="", color=_COLOURS[n], label=n) for n in drawn],
        ncols=len(drawn),
        fontsize=8,
        loc="upper center",
        bbox_to_anchor=(0.5, -0.14),
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_bar(axes: Axes, row: Row, start: float, end: float) -> None:
    if row.bar is None:
        return
    axes.hlines(row.bar.value, start, end, color=_BAR, linestyle="--")
    axes.annotate(
        f"{row.bar.value:g}", (start, row.bar.value), color=_BAR, ha="right", va="center", size=8
    )


def _draw_row(axes: Axes, row: Row, place: float) -> None:
    value, colour = row.found.value, _COLOURS[row.workload]
    filling = "white" if row.verdict == "MISS" else colour
    if _LOW < value < _HIGH:
        axes.vlines(place, row.found.low, row.found.high, color=colour)
        axes.plot(place, value, "o", color=colour, markerfacecolor=filling)
        return
    below = value <= _LOW
    span = _HIGH - _LOW
    axes.plot(
        place,
        _LOW + 0.02 * span if below else _HIGH - 0.02 * span,
        "v" if below else "^",
        color=colour,
        markerfacecolor=filling,
    )
    axes.annotate(
        f"{value:.2f}",
        (place, _LOW + 0.04 * span if below else _HIGH - 0.04 * span),
        color=colour,
        ha="center",
        va="bottom" if below else "top",
        size=8,
    )


def _broken(label: str) -> str:
    """Return the label in two lines if it is long: the groups stand close together."""
    spaces = [i for i, letter in enumerate(label) if letter == " "]
    if not spaces or len(label) < _LINE:
        return label
    best = min(spaces, key=lambda i: abs(i - len(label) // 2))
    return f"{label[:best]}\n{label[best + 1 :]}"
