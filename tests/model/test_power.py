# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Power curves, their hulls, and what a budget may be."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.model import Machine
from tf_malleable.model.power import Budget, PowerCurve, PowerLimit, lower_hull

CURVE = PowerCurve(((0.0, 50.0), (0.5, 150.0), (1.0, 200.0)))
WATTS = st.floats(0.0, 1000.0)


@pytest.mark.parametrize(
    ("load", "watts"), [(0, 50), (0.25, 100), (0.5, 150), (0.75, 175), (1, 200), (-1, 50), (2, 200)]
)
def test_a_curve_is_linear_between_its_points(load, watts):
    assert CURVE.watts(load) == watts
    assert (CURVE.idle, CURVE.full) == (50, 200)


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        ((), "needs points from load 0 to load 1"),
        (((0.0, 1.0), (0.9, 2.0)), "needs points from load 0 to load 1"),
        (((0.0, 1.0), (0.5, 1.0), (0.5, 2.0), (1.0, 3.0)), "must increase"),
        (((0.0, -1.0), (1.0, 2.0)), "not -1.0 at load 0"),
        (((0.0, 1.0), (1.0, math.nan)), "not nan at load 1"),
        (((0.0, 1.0), (1.0, math.inf)), "not inf at load 1"),
    ],
)
def test_what_is_no_curve(points, complaint):
    with pytest.raises(ValueError, match=complaint):
        PowerCurve(points)


@given(st.lists(WATTS, min_size=1, max_size=12))
def test_a_hull_is_convex_and_below_all_points(watts):
    points = [(float(number), each) for number, each in enumerate(watts)]
    hull = lower_hull(points)
    assert hull[0] == points[0]
    assert hull[-1] == points[-1]
    assert set(hull) <= set(points)
    slopes = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in pairwise(hull)]
    assert all(one <= other + 1e-6 for one, other in pairwise(slopes))
    for (x0, y0), (x1, y1) in pairwise(hull):
        for x, y in points:
            if x0 <= x <= x1:
                assert y >= y0 + (y1 - y0) * (x - x0) / (x1 - x0) - 1e-6


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"watts": math.nan}, "not nan"),
        ({"watts": 0.0}, "above 0 W"),
        ({"watts": -5.0}, "above 0 W"),
        ({"watts": math.inf}, "not inf"),
        ({"watts": 100.0, "kind": "mean"}, "a mean needs a window"),
        ({"watts": 100.0, "window": 60.0}, "a peak has none"),
        ({"watts": 100.0, "kind": "mean", "window": 1.0}, "a window must have 10"),
        ({"watts": 100.0, "kind": "mean", "window": math.nan}, "not nan"),
        ({"watts": 100.0, "until": math.nan}, "until must be a time"),
    ],
)
def test_what_is_no_budget(fields, complaint):
    with pytest.raises(ValueError, match=complaint):
        Budget(**fields)


def test_a_smaller_machine_has_the_same_limit():
    limit = PowerLimit(Budget(100.0), CURVE, 4, 4)
    machine = Machine(Machine.flat(4).cpus, limit)
    assert machine.without(frozenset({1})).power is limit


def test_what_is_no_job_and_a_wrong_curve_count():
    limit = PowerLimit(Budget(100.0), CURVE, cpus=4, shared=4, beside=1.0, scale=1.1)
    assert limit.watts(1) == pytest.approx(1.1 * 150)
