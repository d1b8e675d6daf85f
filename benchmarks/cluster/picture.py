# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Draws how far trainings were over time: the one that grows, and two under the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.cluster.names import GROWTH, JOBS
from tf_malleable.figures import style

_TITLES = {
    "static-1": "one worker",
    "static-2": "two workers",
    "grows": "one, and room for a second one at a third",
    "split": "a worker each",
    "queue": "one after the other, two workers each",
    "operator": "the operator decides",
}


def draw(samples: Mapping[str, Sequence[Any]], path: Path) -> None:
    """Write the picture of each way's last round; none unless there is one of all ways.

    Args:
        samples: What each round has brought, by measure.
        path: File to write.
    """
    panels = [ways for ways in (GROWTH, JOBS) if all(samples.get(way) for way in ways)]
    if not panels:
        return
    figure = Figure(figsize=(9.0, 2.9 * len(panels)), layout="constrained")
    every = figure.subplots(len(panels), 1, squeeze=False)[:, 0].tolist()
    for axes, ways in zip(every, panels, strict=True):
        for number, way in enumerate(ways):
            (_growing if ways is GROWTH else _sharing)(axes, way, samples[way][-1], number)
        style.frame(axes, grid="y")
        axes.set_ylabel("epochs done", fontsize=style.MEDIUM)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=style.SMALL, frameon=False, loc="upper left")
    title = "One training: capacity that doubles at a third of it"
    titles = {id(GROWTH): title, id(JOBS): "A long and a short training on two nodes"}
    for axes, ways in zip(every, panels, strict=True):
        style.title(axes, titles[id(ways)])
    every[-1].set_xlabel("seconds", fontsize=style.MEDIUM)
    style.write(figure, path)


def _growing(axes: Axes, way: str, sample: Mapping[str, Any], number: int) -> None:
    begin = sample["begin"]
    times = [0.0, *(at - begin for at in sample["epochs"])]
    colour = style.COLOURS[number]
    axes.plot(times, range(len(times)), color=colour, linewidth=1.6, label=_TITLES[way])
    for what, dashes in (("uncordoned", style.DASHES), ("joined", "-")):
        if what in sample:
            axes.axvline(sample[what] - begin, color=colour, linewidth=0.8, linestyle=dashes)


def _sharing(axes: Axes, way: str, sample: Mapping[str, Any], number: int) -> None:
    begin = min(each["submitted"] for each in sample["jobs"].values())
    for index, job in enumerate(sample["jobs"].values()):
        times = [job["begin"] - begin, *(at - begin for at in job["epochs"])]
        axes.plot(
            times,
            range(len(times)),
            color=style.COLOURS[number],
            linewidth=1.6,
            label="" if index else _TITLES[way],
        )
