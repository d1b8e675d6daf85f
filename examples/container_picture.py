# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""A picture of containers over time: the cores they had, and how fast they trained."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from tf_malleable.figures import style

COLOURS = style.COLOURS[:2]
GIVEN = "#D8E3EC"


@dataclass(frozen=True)
class Sample:
    """What a training has printed: when, the threads it had, the steps it had done."""

    time: float
    threads: int
    steps: float


@dataclass(frozen=True)
class Cores:
    """What a container had from a time on.

    Attributes:
        time: In seconds since the scene began.
        granted: Cores it was given, by hand or by a policy.
        actual: Cores in force.
        state: A job's; "running" without a controller.
    """

    time: float
    granted: int
    actual: int
    state: str = "running"


@dataclass
class Track:
    """One container's part in a scene; the last of its cores are the end of it."""

    name: str
    samples: list[Sample] = field(default_factory=list)
    cores: list[Cores] = field(default_factory=list)


@dataclass(frozen=True)
class Scene:
    """What is drawn above one time axis."""

    title: str
    tracks: Sequence[Track]
    end: float


def draw(by_hand: Scene, controlled: Scene, out: Path) -> None:
    """Write the picture.

    Raises:
        OSError: It cannot be written.
    """
    figure = Figure(figsize=(9.0, 8.6), layout="constrained")
    upper, lower = figure.subfigures(2, 1, height_ratios=[5, 7])
    cores, speed = upper.subplots(2, 1, sharex=True, height_ratios=[2, 3])
    _draw_given(cores, by_hand.tracks[0])
    _finish(by_hand, (cores,), speed)
    first, second, speed = lower.subplots(3, 1, sharex=True, height_ratios=[2, 2, 3])
    for axes, track, colour in zip((first, second), controlled.tracks, COLOURS, strict=True):
        _draw_granted(axes, track, colour)
    _finish(controlled, (first, second), speed)
    style.write(figure, out)


def _draw_given(axes: Axes, track: Track) -> None:
    """Draw the CPUs a container was given, and the threads it then had."""
    times = [cores.time for cores in track.cores]
    given = [cores.granted for cores in track.cores]
    axes.fill_between(times, given, step="post", color=GIVEN, linewidth=0)
    seen = [sample.time for sample in track.samples]
    threads = [sample.threads for sample in track.samples]
    axes.plot(seen, threads, ".", color=COLOURS[0], markersize=5)
    axes.set_ylabel("CPUs, threads", fontsize=9)
    handles = [
        Patch(color=GIVEN, label="CPUs given by docker update"),
        Line2D([], [], color=COLOURS[0], marker=".", ls="", label="threads TensorFlow uses"),
    ]
    _add_legend(axes, handles)


def _draw_granted(axes: Axes, track: Track, colour: str) -> None:
    """Draw the cores a container was granted, and those that were in force."""
    times = [cores.time for cores in track.cores]
    actual = [cores.actual for cores in track.cores]
    granted = [cores.granted for cores in track.cores]
    axes.fill_between(times, actual, step="post", color=colour, linewidth=0)
    axes.step(times, granted, where="post", color="black", linewidth=1, linestyle=style.DASHES)
    handles = [
        Line2D([], [], color="black", linewidth=1, linestyle=style.DASHES, label="granted"),
        Patch(color=colour, label="actual"),
    ]
    paused = [pair for pair in pairwise(track.cores) if pair[0].state == "paused"]
    for begin, end in paused:
        axes.axvspan(
            begin.time,
            end.time,
            facecolor="none",
            edgecolor=style.PAUSED,
            hatch="/////",
            linewidth=0,
        )
    if paused:
        handles.append(
            Patch(facecolor="white", edgecolor=style.PAUSED, hatch="/////", label="paused")
        )
    axes.set_ylabel(f"cores of\n{track.name}", fontsize=9)
    _add_legend(axes, handles)


def _finish(scene: Scene, cores: Sequence[Axes], speed: Axes) -> None:
    """Draw the speeds of a scene, and what all its axes have in common."""
    for track, colour in zip(scene.tracks, COLOURS, strict=False):
        times = [sample.time for sample in track.samples]
        rates = [
            (after.steps - before.steps) / (after.time - before.time)
            for before, after in pairwise(track.samples)
        ]
        if rates:
            speed.stairs(rates, times, color=colour, linewidth=1.6, label=track.name, baseline=None)
    speed.set_ylabel("steps / s", fontsize=9)
    speed.set_ylim(bottom=0)
    speed.set_xlim(0, scene.end)
    speed.set_xlabel("time (s)", fontsize=9)
    if len(scene.tracks) > 1:
        _add_legend(speed, speed.get_legend_handles_labels()[0])
    style.title(cores[0], scene.title)
    most = max(each.granted for track in scene.tracks for each in track.cores)
    for axes in cores:
        axes.set_ylim(0, most * 1.12)
        axes.set_yticks([0, 1, most] if most > 1 else [0, 1])
    for axes in (*cores, speed):
        style.frame(axes)
        axes.tick_params(labelsize=style.SMALL)


def _add_legend(axes: Axes, handles: Sequence[Patch | Line2D]) -> None:
    axes.legend(
        handles=handles,
        loc="lower right",
        bbox_to_anchor=(1.0, 1.0),
        ncols=len(handles),
        fontsize=style.SMALL,
        frameon=False,
        borderaxespad=0.1,
        handlelength=1.6,
    )
