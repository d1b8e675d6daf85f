# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Gantt chart of a history: the cores of each job over time.

There is one row per job; the height of a bar is the number of cores. A strip below
stacks all cores in use and so shows idle and oversubscribed times.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tf_malleable.api.schema.history import History, Outcome, Summary
from tf_malleable.figures import style, time_axis
from tf_malleable.figures.formats import MOST_PANELS
from tf_malleable.figures.timeline import Row, bands, load, rows
from tf_malleable.model.units import duration, number

_WAITING = "#9A9A9A"
_SHADE = "#F6F6F6"
_VEIL = "#FFFFFF99"
_ALL = "#5F7C99"
_ENDS: dict[Outcome | None, str] = {"failed": "X", "cancelled": "s"}

# Inches.
_WIDTH = 9.0
_TALLEST = 36.0
_STRIP = 0.95
_ROW_MOST = 0.34
_ROW_LEAST = 0.105
_ROWS_COMFORTABLE = 5.0
_LABEL = 0.1

_LONGEST_LABEL = 28

# Fractions of a row's height.
_BAR = 0.84
_WAITING_BAR = 0.1
_PAUSED_BAR = 0.3
_ONE_CORE = 0.25

# Fraction of the strip's height.
_TICKS_APART = 0.15

# With more stacked colours than this, the strip is unreadable.
_MOST_BANDS = 40

_Corners = list[tuple[float, float]]


def draw(history: History, *, cpus: int | None = None) -> Figure:
    """Return a figure of one history.

    Args:
        history: The history with its spans; a job without spans is drawn with its mean
            number of cores.
        cpus: Number of CPUs; by default as many as occur in the spans.
    """
    return compare([("", history)], cpus=cpus)


def compare(
    histories: Sequence[tuple[str, History]],
    *,
    cpus: int | Sequence[int] | None = None,
    zero: float | None = None,
) -> Figure:
    """Return a figure of several histories, one above the other, on the same time axis.

    Args:
        histories: Pairs of title and history, at least one.
        cpus: Number of CPUs, for each history if they differ; by default as many as occur in
            all spans.
        zero: Time of the first arrival, if the histories are parts of one, such as its
            hosts; by default each begins with its own.

    Raises:
        ValueError: There are more histories than one picture can show.
    """
    if len(histories) > MOST_PANELS:
        raise ValueError(f"a chart shows at most {MOST_PANELS} histories, not {len(histories)}")
    if cpus is None:
        cpus = len({cpu for _, each in histories for span in each.spans for cpu in span.cpus})
    each_cpus = [cpus] * len(histories) if isinstance(cpus, int) else cpus
    panels = [rows(history, zero) for _, history in histories]
    titles = [(title, _metrics(history.summary)) for title, history in histories]
    return _figure(panels, titles, each_cpus, "core")


def draw_rows(panel: Sequence[Row], metrics: str, *, most: int = 0, unit: str) -> Figure:
    """Return a figure of rows that do not come from a history.

    Args:
        panel: The rows.
        metrics: Text above the rows.
        most: Total number of the units that the heights of bars show; 0 if unknown.
        unit: Name of one of these units.
    """
    return _figure([panel], [("", metrics)], [most], unit)


def _figure(
    panels: Sequence[Sequence[Row]],
    titles: Sequence[tuple[str, str]],
    each_cpus: Sequence[int],
    unit: str,
) -> Figure:
    stretches = [stretch for panel in panels for row in panel for stretch in row.stretches]
    longest = max((stretch.end for stretch in stretches), default=1.0)
    tallest = max((stretch.cores for stretch in stretches), default=1.0) or 1.0

    row = _row_inches(sum(map(len, panels)))
    heights = [inches for panel in panels for inches in (max(len(panel), 1) * row, _STRIP)]
    figure = Figure(figsize=(_WIDTH, sum(heights) + 0.9 + 0.5 * len(panels)), layout="constrained")
    axes = figure.subplots(len(heights), 1, sharex=True, height_ratios=heights, squeeze=False)
    for index, (panel, here) in enumerate(zip(panels, each_cpus, strict=True)):
        upper, lower = axes[2 * index][0], axes[2 * index + 1][0]
        _write_title(upper, *titles[index])
        _draw_rows(upper, panel, tallest, row)
        _draw_strip(lower, panel, here, f"{unit}s")
    time_axis.linear(axes[-1][0], longest)
    figure.legend(
        handles=_legend(panels, tallest, each_cpus, unit),
        loc="outside lower center",
        ncols=6,
        fontsize=8.5,
        frameon=False,
        handlelength=1.6,
    )
    return figure


def _row_inches(count: int) -> float:
    """Return the height of a row in inches: comfortable for few, just readable for many."""
    fitting = max(_ROW_LEAST, min(_ROW_MOST, _ROWS_COMFORTABLE / max(count, 1)))
    return min(fitting, _TALLEST / max(count, 1))


def _metrics(summary: Summary) -> str:
    return (
        f"makespan {duration(summary.makespan)}  ·  mean turnaround"
        f" {duration(summary.mean_turnaround)}  ·  mean slowdown {number(summary.mean_slowdown, 2)}"
    )


def _write_title(axes: Axes, title: str, metrics: str) -> None:
    if title:
        style.title(axes, title)
    axes.set_title(metrics, loc="right" if title else "left", fontsize=9.5)


def _draw_rows(axes: Axes, panel: Sequence[Row], tallest: float, inches: float) -> None:
    """Draw one row per job, the first arrival on top."""
    waiting: list[_Corners] = []
    paused: list[_Corners] = []
    running: list[list[_Corners]] = [[] for _ in style.COLOURS]
    for index, row in enumerate(panel):
        for stretch in row.stretches:
            height, group = {
                "waiting": (_WAITING_BAR, waiting),
                "paused": (_PAUSED_BAR, paused),
                "running": (_bar(stretch.cores, tallest), running[index % len(style.COLOURS)]),
            }[stretch.state]
            low = index + 0.5 - height / 2
            group.append(_rectangle(stretch.begin, stretch.end, low, low + height))
        if row.outcome in _ENDS and row.stretches:
            axes.plot(
                row.stretches[-1].end,
                index + 0.5,
                _ENDS[row.outcome],
                color=_end_colour(row.outcome),
                markersize=min(7.0, inches * 45),
                markeredgecolor="white",
                markeredgewidth=0.5,
                clip_on=False,
                zorder=4,
            )
    shade = [_rectangle(0, 1, index, index + 1) for index in range(1, len(panel), 2)]
    across = axes.get_yaxis_transform()
    axes.add_collection(PolyCollection(shade, facecolors=_SHADE, zorder=0, transform=across))
    axes.add_collection(PolyCollection(waiting, facecolors=_WAITING, linewidths=0))
    axes.add_collection(_hatched(paused, style.PAUSED, "/////"))
    for colour, group in zip(style.COLOURS, running, strict=True):
        axes.add_collection(_plain(group, colour))

    every = math.ceil(_LABEL / inches)
    axes.set_yticks(
        [index + 0.5 for index in range(0, len(panel), every)],
        [style.plain(row.label, _LONGEST_LABEL) for row in panel[::every]],
        fontsize=max(5.5, min(9.0, inches * every * 72 * 0.72)),
    )
    axes.set_ylim(max(len(panel), 1), 0)
    axes.tick_params(axis="y", length=0)
    axes.tick_params(axis="x", length=0, labelbottom=False)
    style.frame(axes)


def _bar(count: float, tallest: float) -> float:
    """Return the height of a bar: proportional to the cores while a single core is visible.

    With more than four cores it is a power of the proportion, such that one core still
    has a quarter of the height.
    """
    if count <= 0:
        return _WAITING_BAR
    power = min(1.0, math.log(_ONE_CORE) / math.log(1 / tallest)) if tallest > 1 else 1.0
    return _BAR * math.pow(count / tallest, power)


def _draw_strip(axes: Axes, panel: Sequence[Row], cpus: int, label: str) -> None:
    """Draw the stacked cores of all rows, against the number of CPUs."""
    steps = load(panel)
    times, counts = [time for time, _ in steps], [count for _, count in steps]
    if len(panel) <= _MOST_BANDS:
        stacked = bands(panel)
        for index, colour in enumerate(style.COLOURS):
            group = [
                _rectangle(band.begin, band.end, band.bottom, band.top)
                for band in stacked
                if band.row % len(style.COLOURS) == index
            ]
            axes.add_collection(_plain(group, colour))
    else:
        axes.fill_between(times, counts, step="post", color=_ALL, linewidth=0)
    highest = max([cpus, 1, *counts])
    if cpus:
        over = [
            _rectangle(time, following, cpus, count)
            for (time, count), (following, _) in pairwise(steps)
            if count > cpus
        ]
        axes.add_collection(_hatched(over, style.ALARM, "////", face=_VEIL))
        axes.axhline(cpus, color="black", linewidth=1, linestyle=style.DASHES)
    axes.set_ylim(0, highest * 1.12)
    most = math.ceil(highest)
    # If two labels would overlap, only the number of CPUs, which has a line, is kept.
    axes.set_yticks(sorted({0, cpus, most if most - cpus >= _TICKS_APART * most else cpus}))
    axes.set_ylabel(label, fontsize=9)
    axes.tick_params(labelsize=8.5)
    style.frame(axes)


def _plain(corners: list[_Corners], colour: str) -> PolyCollection:
    # An edge of the same colour closes the seams between bars.
    return PolyCollection(corners, facecolors=colour, edgecolors=colour, linewidths=0.3, zorder=2)


def _hatched(
    corners: list[_Corners], colour: str, hatch: str, face: str = "white"
) -> PolyCollection:
    return PolyCollection(
        corners, facecolors=face, edgecolors=colour, linewidths=0.4, hatch=hatch, zorder=3
    )


def _end_colour(outcome: Outcome | None) -> str:
    return style.ALARM if outcome == "failed" else "black"


def _rectangle(left: float, right: float, low: float, high: float) -> _Corners:
    return [(left, low), (right, low), (right, high), (left, high)]


def _legend(
    panels: Sequence[Sequence[Row]],
    tallest: float,
    cpus: Sequence[int],
    unit: str,
) -> list[Patch | Line2D]:
    """Return the legend of what occurs in the figure."""
    shown = [row for panel in panels for row in panel]
    states = {stretch.state for row in shown for stretch in row.stretches}
    handles: list[Patch | Line2D] = []
    if "running" in states:
        most = f"{round(tallest)} {unit}{'' if round(tallest) == 1 else 's'}"
        handles.append(Patch(color=style.COLOURS[0], label=f"running, full height: {most}"))
    if "waiting" in states:
        handles.append(Line2D([], [], color=_WAITING, linewidth=3, label="waiting"))
    if "paused" in states:
        handles.append(_hatched_patch(style.PAUSED, "/////", "paused"))
    for outcome, mark in _ENDS.items():
        if outcome is not None and any(row.outcome == outcome for row in shown):
            colour = _end_colour(outcome)
            handles.append(Line2D([], [], color=colour, marker=mark, ls="", label=outcome))
    with_cpus = zip(panels, cpus, strict=True)
    if any(here and count > here for panel, here in with_cpus for _, count in load(panel)):
        handles.append(_hatched_patch(style.ALARM, "////", "more cores than there are"))
    return handles


def _hatched_patch(colour: str, hatch: str, label: str) -> Patch:
    return Patch(facecolor="white", edgecolor=colour, hatch=hatch, label=label, linewidth=0.4)
