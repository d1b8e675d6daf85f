# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Times are labelled in round numbers of seconds, minutes, hours and days."""

from __future__ import annotations

from itertools import pairwise

import pytest
from matplotlib.figure import Figure

from tf_malleable.figures import time_axis


def labels(axes) -> list[str]:
    return [label.get_text() for label in axes.get_xticklabels()]


@pytest.mark.parametrize(
    ("longest", "unit", "expected"),
    [
        (0.04, "(s)", ["0", "0.005", "0.01", "0.015", "0.02", "0.025", "0.03", "0.035", "0.04"]),
        (90, "(s)", ["0", "10", "20", "30", "40", "50", "60", "70", "80", "90"]),
        (3000, "(min)", ["0", "10", "20", "30", "40", "50"]),
        (20_000, "(h)", ["0", "1", "2", "3", "4", "5"]),
        (86_400 * 30, "(d)", ["0", "5", "10", "15", "20", "25", "30"]),
    ],
)
def test_ticks_are_round_in_the_unit_that_fits(longest, unit, expected):
    axes = Figure().subplots()
    time_axis.linear(axes, longest)
    assert labels(axes) == expected
    assert unit in axes.get_xlabel()


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1, 10, ["1 s", "2 s", "5 s", "10 s"]),
        (20, 200, ["20 s", "30 s", "1 min", "2 min"]),
        (5, 20_000, ["10 s", "1 min", "10 min", "1 h"]),
        (1, 1e6, ["1 s", "10 s", "1 min", "10 min", "1 h", "6 h", "1 d", "10 d"]),
        (0.002, 0.06, ["2 ms", "5 ms", "10 ms", "20 ms", "50 ms"]),
    ],
)
def test_logarithmic_ticks_have_their_own_units(low, high, expected):
    assert [label for _, label in time_axis.durations(low, high)] == expected


@pytest.mark.parametrize("low", [0.001, 0.7, 3, 50, 1000, 50_000, 1e6])
@pytest.mark.parametrize("factor", [10, 50, 1000, 1e5])
def test_labels_have_room(low, factor):
    found = [seconds for seconds, _ in time_axis.durations(low, low * factor)]
    assert found == sorted(found)
    # Where there are fewer, it is beyond what anybody simulates.
    assert len(found) >= 2 or low * factor > 86_400 * 200
    assert all(after / before >= factor ** (1 / 11) for before, after in pairwise(found))


@pytest.mark.parametrize(("shortest", "longest"), [(10.0, 10.0), (0.001, 0.001), (3.0, 4.0)])
def test_a_narrow_range_is_widened_until_it_has_ticks(shortest, longest):
    axes = Figure().subplots()
    time_axis.logarithmic(axes, shortest, longest)
    low, high = axes.get_xlim()
    assert low < shortest <= longest < high
    assert high / low >= 10
    assert len(labels(axes)) >= 2


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [(0.0, "1 ms"), (0.9, "1 s"), (504, "10 min"), (3600, "1 h"), (86_400 * 250, "250 d")],
)
def test_rounding_up(seconds, expected):
    found, label = time_axis.rounded_up(seconds)
    assert label == expected
    assert found >= seconds
