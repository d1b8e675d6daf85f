# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Comparison of histories of the same jobs, one line each: turnaround, utilisation and queue."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter

from tf_malleable.api.schema.history import History
from tf_malleable.figures import series, style, time_axis
from tf_malleable.figures.timeline import rows

# Inches.
_WIDTH = 11.0
_HEIGHT = 5.6
_LEGEND_ROW = 0.2
_LEGEND_LINE = 0.85
_LEGEND_LETTER = 0.08

_MOST_COLUMNS = 4
# With more steps, lines of several policies hide each other.
_MOST_STEPS = 120
_LONGEST_LABEL = 60
_LONGEST_TITLE = 120
_LINE = 1.5
# With the six colours these give 24 different lines; the first eight also differ in grey.
_DASHES: tuple[style.Dashes, ...] = (
    (0, ()),
    (0, (5, 1.6)),
    (0, (1.2, 1.2)),
    (0, (7, 1.6, 1.2, 1.6)),
    (0, (9, 3)),
    (0, (4, 1.2, 1.2, 1.2, 1.2, 1.2)),
    (0, (2.5, 2.5)),
    (0, (1.2, 3)),
)


@dataclass(frozen=True)
class _Line:
    """Curves of one history; all times are in seconds."""

    label: str
    colour: str
    dashes: style.Dashes
    turnaround: series.Steps
    utilisation: series.Steps
    queue: series.Steps
    longest: float


def compare(histories: Mapping[str, History], cores: int, title: str = "") -> Figure:
    """Return a figure of several histories: turnaround, utilisation and queue, a line for each.

    Args:
        histories: Histories with spans, by the name of their policy, in the order of the legend.
            A job without spans counts with its mean number of cores.
        cores: Number of cores that each policy shared out.
        title: Title of the whole figure; may be empty.

    Raises:
        ValueError: There are no jobs to draw, or no cores.
    """
    if not any(history.jobs for history in histories.values()):
        raise ValueError("there are no jobs to draw")
    lines = [
        _line(index, name, history, cores)
        for index, (name, history) in enumerate(histories.items())
    ]
    columns = _columns(lines)
    height = _HEIGHT + _LEGEND_ROW * math.ceil(len(lines) / columns)
    figure = Figure(figsize=(_WIDTH, height), layout="constrained")
    panels = figure.subplot_mosaic("AB;AC", width_ratios=[1, 1.35])
    _draw_turnaround(panels["A"], lines)
    _draw_over_time(panels["B"], panels["C"], lines)
    if title:
        said = style.plain(title, _LONGEST_TITLE)
        figure.suptitle(said, x=0.008, ha="left", fontsize=11, fontweight="bold")
    figure.legend(
        handles=[_handle(line) for line in lines],
        loc="outside lower center",
        ncols=columns,
        fontsize=style.SMALL,
        frameon=False,
        handlelength=4.0,
    )
    return figure


def _columns(lines: Sequence[_Line]) -> int:
    """Return the number of the legend's columns: as many as fit side by side."""
    longest = max(len(line.label) for line in lines)
    fitting = int(_WIDTH / (_LEGEND_LINE + _LEGEND_LETTER * longest))
    return max(1, min(fitting, _MOST_COLUMNS, len(lines)))


def _line(index: int, name: str, history: History, cores: int) -> _Line:
    found = rows(history)
    label = style.plain(name, _LONGEST_LABEL)
    return _Line(
        label=label if history.jobs else f"{label} (no jobs)",
        colour=style.COLOURS[index % len(style.COLOURS)],
        dashes=_DASHES[index % len(_DASHES)],
        turnaround=series.distribution(series.turnarounds(history)),
        utilisation=series.utilisation(found, cores),
        queue=series.queue(found),
        longest=series.last_end(found),
    )


def _draw_turnaround(axes: Axes, lines: Sequence[_Line]) -> None:
    ends = [max(time_axis.SHORTEST, time) for line in lines for time, _ in line.turnaround]
    for line in lines:
        # The curve rises from the bottom at the shortest turnaround.
        begin = [(time, 0.0) for time, _ in line.turnaround[:1]]
        _plot(axes, line, [(max(time_axis.SHORTEST, t), v) for t, v in (*begin, *line.turnaround)])
    time_axis.logarithmic(axes, min(ends), max(ends))
    axes.set_ylim(0, 1.02)
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    axes.set_xlabel("turnaround, logarithmic", fontsize=style.MEDIUM)
    axes.set_ylabel("jobs with at most this turnaround (%)", fontsize=style.MEDIUM)
    _finish(axes, "Turnaround")
    axes.grid(axis="x", color=style.GRID, linewidth=0.6)


def _draw_over_time(upper: Axes, lower: Axes, lines: Sequence[_Line]) -> None:
    """Draw utilisation and queue; if a line has many steps, draw means for all lines."""
    longest = max(line.longest for line in lines) or 1.0
    curves = [(line, line.utilisation, line.queue) for line in lines]
    is_averaged = any(len(steps) > _MOST_STEPS for _, *both in curves for steps in both)
    mean, said = time_axis.rounded_up(longest / _MOST_STEPS)
    for line, *both in curves:
        for axes, steps in zip((upper, lower), both, strict=True):
            _plot(axes, line, series.averaged(steps, mean) if is_averaged else steps)
    for axes in (upper, lower):
        time_axis.linear(axes, longest)
        # Lines at 0 stay above the frame, and those above 1, where jobs borrow, below its end.
        top = max(1.0, axes.dataLim.y1)
        axes.set_ylim(-0.02 * top, 1.05 * top)
    upper.tick_params(axis="x", labelbottom=False)
    upper.set_xlabel("")
    if is_averaged:
        lower.set_xlabel(f"{lower.get_xlabel()}; each step is the mean of {said}")
    upper.yaxis.set_major_formatter(PercentFormatter(1.0, symbol=""))
    upper.set_ylabel("granted cores (% of all cores)", fontsize=style.MEDIUM)
    _finish(upper, "Utilisation")
    lower.yaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    lower.set_ylabel("jobs without cores", fontsize=style.MEDIUM)
    _finish(lower, "Queue")


def _finish(axes: Axes, title: str) -> None:
    axes.set_title(title, loc="left", fontsize=style.MEDIUM)
    axes.tick_params(labelsize=style.SMALL)
    style.frame(axes, grid="y")


def _plot(axes: Axes, line: _Line, steps: series.Steps) -> None:
    axes.plot(
        [position for position, _ in steps],
        [value for _, value in steps],
        drawstyle="steps-post",
        color=line.colour,
        linestyle=line.dashes,
        linewidth=_LINE,
    )


def _handle(line: _Line) -> Line2D:
    return Line2D(
        [], [], color=line.colour, linestyle=line.dashes, linewidth=_LINE, label=line.label
    )
