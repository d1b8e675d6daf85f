# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Draws makespan and mean turnaround of every workload and configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from controller.results import BASELINES, METRICS, Metric, Table
from controller.workloads import WORKLOADS

_STOCK: Final = ("0.45", "0.62", "0.78")
_OURS: Final = ("tab:blue", "tab:orange", "tab:green", "tab:purple", "tab:brown", "tab:cyan")
_GAP: Final = 1.2


def draw(table: Table, path: Path) -> None:
    """Write a picture: bars are medians, points the runs."""
    names = list(dict.fromkeys(n for w in table.workloads() for n in table.configurations(w)))
    ours = [name for name in names if name not in BASELINES]
    colours = dict(zip(BASELINES, _STOCK, strict=True))
    colours |= {name: _OURS[i % len(_OURS)] for i, name in enumerate(ours)}
    order = [name for name in (*BASELINES, *ours) if name in names]
    figure, axes = plt.subplots(2, sharex=True, figsize=(12, 7))
    for axis, metric in zip(axes, METRICS, strict=True):
        _draw_metric(axis, table, metric, order, colours)
    axes[0].legend(
        ncols=len(order), fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False
    )
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _draw_metric(
    axes: Axes, table: Table, metric: Metric, order: list[str], colours: dict[str, str]
) -> None:
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
                fontsize=7,
            )
        title = f"{workload}: {WORKLOADS[workload].title}"
        ticks.append((place + (len(measured) - 1) / 2, title))
        place += len(measured) + _GAP
    axes.set_xticks([at for at, _ in ticks], [text for _, text in ticks], fontsize=8)
    axes.set_ylabel(f"{metric} in s")
    axes.grid(axis="y", alpha=0.3)
    axes.set_axisbelow(True)
