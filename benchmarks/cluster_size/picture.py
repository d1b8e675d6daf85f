# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Draws how many CPUs trainings had over time, a panel for each size of the cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure

from tf_malleable.figures import style


def draw(used: Mapping[int, Mapping[str, Sequence[tuple[float, int]]]], path: Path) -> None:
    """Write the picture.

    Args:
        used: From when on how many CPUs were had, by number of nodes and by way.
        path: File to write.
    """
    figure = Figure(figsize=(9.0, 2.5 * len(used)), layout="constrained")
    panels = figure.subplots(len(used), 1, squeeze=False)[:, 0].tolist()
    for axes, (nodes, ways) in zip(panels, used.items(), strict=True):
        for number, (way, points) in enumerate(ways.items()):
            is_static = way.startswith("static")
            axes.step(
                [time / 60 for time, _ in points],
                [cpus / 1e3 for _, cpus in points],
                where="post",
                color=style.COLOURS[number % len(style.COLOURS)],
                linewidth=1.2,
                linestyle=style.DASHES if is_static else "-",
                label=way,
            )
        style.frame(axes, grid="y")
        style.title(axes, f"{nodes:,} nodes")
        axes.set_ylabel("thousand CPUs in use", fontsize=style.MEDIUM)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        axes.legend(fontsize=style.SMALL, frameon=False, loc="upper right")
    panels[-1].set_xlabel("minutes", fontsize=style.MEDIUM)
    style.write(figure, path)
