# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Rows of the table, from samples. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.common.estimates import Estimate, estimate, once
from benchmarks.common.rows import Row, Target


def rows(samples: Mapping[str, Any]) -> list[Row]:
    """Return what is known of each measure that has samples."""
    made: list[Row] = []
    if errors := samples.get("calibration"):
        made += _of_calibration(errors)
    if costs := samples.get("metering"):
        made += [
            Row("metering", f"{jobs} jobs, of a core", "%", _estimate(found), Target(0.2))
            for jobs, found in costs.items()
        ]
    if carried := samples.get("units"):
        made += _of_units(carried)
    if kept := samples.get("budget"):
        made += _of_budgets(kept)
    return made


def _estimate(found: Sequence[float]) -> Estimate:
    return estimate([found]) if len(found) > 1 else once(found[0])


def _of_calibration(errors: Mapping[str, float]) -> list[Row]:
    worst = max(errors, key=lambda server: errors[server])
    mean = sum(errors.values()) / len(errors)
    return [
        Row(
            "calibration",
            "held-out points of the worst server, mean error",
            "%",
            once(100 * errors[worst]),
            Target(10.0),
            remark=worst,
        ),
        Row("calibration", f"mean of {len(errors)} servers", "%", once(100 * mean)),
    ]


def _of_units(carried: Sequence[Mapping[str, float]]) -> list[Row]:
    units, remark = carried[0]["units"], f"{carried[0]['rounds']} budgets for all at once"

    def found(name: str) -> Estimate:
        return _estimate([each[name] for each in carried])

    return [
        Row("units", f"budget to acknowledgement, {units} units, median", "ms", found("p50")),
        Row("units", "99th percentile", "ms", found("p99"), Target(1000.0), remark=remark),
    ]


def _of_budgets(kept: Sequence[Mapping[str, Any]]) -> list[Row]:
    first = kept[0]
    windows = sum(each["windows"] for each in kept)
    within = sum(each["within"] * each["windows"] for each in kept) / windows
    what = f"{first['watts']:g} W over {first['window']:g} s of {first['server']}"
    worst = [100 * (each["highest"] / each["watts"] - 1) for each in kept]
    return [
        Row(
            "budget",
            "windows with at most 2 % more",
            "%",
            once(100 * within),
            Target(99.0, at_least=True),
            remark=f"{windows} windows; {what}",
        ),
        Row("budget", "the highest window, beyond the budget", "%", once(max(worst))),
        Row(
            "budget",
            "work, by what the hull allows",
            "ratio",
            _estimate([each["work"] for each in kept]),
            Target(0.9, at_least=True),
        ),
        Row("budget", "time paused", "%", _estimate([100 * each["paused"] for each in kept])),
    ]
