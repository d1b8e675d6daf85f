# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Curves from a few measurements, held against published tables of real servers."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.power.calibration import error
from benchmarks.power.servers import CALIBRATED, SERVERS
from tf_malleable.scheduling.energy.calibration import fit


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.name)
def test_five_points_tell_the_others_of_a_real_server(server):
    # A table has a load each tenth. Six are held out.
    assert len(server.watts) - len(CALIBRATED) == 6
    assert error(server) <= 0.10


def test_equal_loads_are_averaged_and_noise_does_not_make_a_curve_fall():
    curve = fit([(1.0, 200.0), (0.0, 50.0), (0.5, 150.0), (0.75, 140.0), (0.0, 60.0)])
    assert curve.points == ((0.0, 55.0), (0.5, 145.0), (0.75, 145.0), (1.0, 200.0))


def test_a_host_that_is_never_quite_idle_or_full():
    assert fit([(0.1, 60.0), (0.9, 140.0)]).points[0] == (0.0, pytest.approx(50.0))
    assert fit([(0.1, 60.0), (0.9, 140.0)]).points[-1] == (1.0, pytest.approx(150.0))


@pytest.mark.parametrize(
    ("points", "complaint"),
    [
        ([], "at idle and at full load"),
        ([(0.0, 50.0)], "at idle and at full load"),
        ([(0.3, 50.0), (1.0, 60.0)], "at idle and at full load"),
        ([(0.0, 50.0), (1.5, 60.0)], "from 0 to 1, not 1.5"),
        ([(0.0, math.nan), (1.0, 60.0)], "0 or more, not nan"),
    ],
)
def test_what_is_no_calibration(points, complaint):
    with pytest.raises(ValueError, match=complaint):
        fit(points)


@given(st.dictionaries(st.floats(0, 1), st.floats(0, 1000), max_size=8), st.floats(0, 1000))
def test_every_fit_is_a_curve_that_never_falls(points, idle):
    curve = fit([*points.items(), (0.0, idle), (1.0, idle + 10)])
    assert all(one[1] <= other[1] + 1e-9 for one, other in pairwise(curve.points))
