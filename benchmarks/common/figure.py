# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Draws the results of a benchmark: times of workloads, and all rows against their targets."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.common.configurations import BASELINES
from benchmarks.common.rows import Row, shown
from benchmarks.common.runs import METRICS, Metric, Run, Table
from tf_malleable.figures import style

_WIDTH: Final = 11.0
_ROW_INCHES: Final = 0.2
_PANEL_INCHES: Final = 0.7
_TIMES_INCHES: Final = 2.6
_GREYS: Final = ("#707070", "#9E9E9E", "#C6C6C6")
_GAP: Final = 1.2
_TICK_CHARACTERS: Final = 18
_LEGEND_COLUMNS: Final = 4


def draw(rows: Sequence[Row], runs: Sequence[Run], titles: Mapping[str, str], path: Path) -> None:
    """Write a picture of all results; none if there are none.

    Args:
        rows: All rows.
        runs: All runs of workloads.
        titles: Titles of the workloads that have one, by name.
        path: File to write.
    """
    panels: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        if math.isfinite(row.found.value):
            panels.setdefault((row.measure, row.unit), []).append(row)
    heights = [_TIMES_INCHES] * len(METRICS) if runs else []
    heights += [_PANEL_INCHES + _ROW_INCHES * len(panel) for panel in panels.values()]
    if not heights:
        return
    figure = Figure(figsize=(_WIDTH, sum(heights)), layout="constrained")
    axes = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False)[:, 0].tolist()
    if runs:
        _draw_times(axes[: len(METRICS)], Table(tuple(runs)), titles)
    panels_axes = axes[len(heights) - len(panels) :]
    for axis, ((measure, unit), panel) in zip(panels_axes, panels.items(), strict=True):
        _draw_panel(axis, panel, unit)
        style.title(axis, measure)
    style.write(figure, path)


def _draw_panel(axes: Axes, panel: Sequence[Row], unit: str) -> None:
    """Draw rows below each other: value, interval, and a dash where the target is."""
    scale, said = (1e3, "ms") if unit == "seconds" else (1.0, unit)
    for line, row in enumerate(panel):
        colour = style.ALARM if row.verdict == "missed" else style.COLOURS[0]
        low, value, high = (scale * v for v in (row.found.low, row.found.value, row.found.high))
        if math.isfinite(high):
            axes.plot([low, high], [line, line], color=colour, alpha=0.45, linewidth=4)
        filling = "white" if row.verdict == "missed" else colour
        axes.plot([value], [line], "o", color=colour, markersize=5, markerfacecolor=filling)
        if row.target is not None:
            at = scale * row.target.value
            axes.vlines(at, line - 0.45, line + 0.45, color="black", linewidth=1)
        axes.annotate(
            shown(row.found.value, unit),
            (1.01, line),
            xycoords=("axes fraction", "data"),
            va="center",
            fontsize=style.SMALL,
        )
    labels = [f"{row.label}  {row.workload}".rstrip() for row in panel]
    style.frame(axes)
    axes.set_yticks(range(len(panel)), labels, fontsize=style.SMALL)
    axes.set_ylim(len(panel) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", labelsize=style.SMALL)
    axes.set_xlabel(said, fontsize=style.SMALL)


def _draw_times(axes: Sequence[Axes], table: Table, titles: Mapping[str, str]) -> None:
    """Draw makespan and mean turnaround: bars are medians, points the runs."""
    names = list(dict.fromkeys(n for w in table.workloads() for n in table.configurations(w)))
    stock = [each.name for each in BASELINES]
    ours = [name for name in names if name not in stock]
    colours = dict(zip(stock, _GREYS, strict=True))
    colours |= {name: style.COLOURS[i % len(style.COLOURS)] for i, name in enumerate(ours)}
    order = [name for name in (*stock, *ours) if name in names]
    for axis, metric in zip(axes, METRICS, strict=True):
        ticks = _draw_metric(axis, table, metric, order, colours)
        axis.set_xticks(
            [at for at, _ in ticks],
            [_tick(name, titles) for _, name in ticks],
            fontsize=style.SMALL,
        )
    axes[0].legend(
        ncols=min(len(order), _LEGEND_COLUMNS),
        fontsize=style.SMALL,
        loc="lower center",
        bbox_to_anchor=(0.5, 1.0),
        frameon=False,
    )


def _tick(name: str, titles: Mapping[str, str]) -> str:
    # Beside each other, longer lines would overlap.
    return textwrap.fill(": ".join(filter(None, (name, titles.get(name)))), _TICK_CHARACTERS)


def _draw_metric(
    axes: Axes, table: Table, metric: Metric, order: Sequence[str], colours: dict[str, str]
) -> list[tuple[float, str]]:
    """Draw one metric; return where each workload is."""
    labelled: set[str] = set()
    ticks: list[tuple[float, str]] = []
    place = 0.0
    for workload in table.workloads():
        measured = [name for name in order if name in table.configurations(workload)]
        for number, name in enumerate(measured):
            values = [run.value(metric) for run in table.of(workload, name)]
            middle = table.middle(workload, name, metric)
            label = None if name in labelled else name
            labelled.add(name)
            axes.bar(place + number, middle, color=colours[name], label=label)
            axes.plot([place + number] * len(values), values, ".", color="black", markersize=3)
            axes.annotate(
                f"{middle:.0f}",
                (place + number, max(values)),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=style.SMALL - 1.5,
            )
        ticks.append((place + (len(measured) - 1) / 2, workload))
        place += len(measured) + _GAP
    style.frame(axes, grid="y")
    axes.tick_params(axis="y", labelsize=style.SMALL)
    axes.set_ylabel(f"{metric} in s", fontsize=style.MEDIUM)
    return ticks
