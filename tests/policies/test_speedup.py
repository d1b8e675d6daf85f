# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Curves are found from few speeds, and nonsense does not break them."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_malleable.model import Rate
from tf_malleable.policies.queues.speedup import Curve, fit


def rates(curve: Curve, *counts: int, noise: tuple[float, ...] = ()) -> tuple[Rate, ...]:
    factors = noise or (1.0,) * len(counts)
    return tuple(Rate(n, f / curve.seconds(n)) for n, f in zip(counts, factors, strict=True))


@pytest.mark.parametrize("serial", [0.0, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("counts", [(1, 2), (2, 7), (1, 2, 3, 4), (8, 9)])
def test_amdahls_law_is_found(serial, counts):
    found = fit(rates(Curve(0.02, 0.02 * serial), *counts))
    assert found.one == pytest.approx(0.02)
    assert found.contention == pytest.approx(0.02 * serial, abs=1e-9)
    assert found.coherence == 0
    assert found.speedup(16) == pytest.approx(1 / (serial + (1 - serial) / 16))


def test_jobs_that_get_slower_with_more_cores_are_found():
    curve = Curve(3.0, 0.1, 0.02)
    found = fit(rates(curve, 1, 4, 8, 16, 32))
    assert found.coherence == pytest.approx(0.02)
    assert found.speedup(64) == pytest.approx(curve.speedup(64))
    assert found.speedup(64) < found.speedup(12)


def test_slower_without_contention_is_found_too():
    found = fit(rates(Curve(1.0, 0.0, 0.01), 1, 2, 8, 16, noise=(1, 0.99, 1, 1)))
    assert found.coherence == pytest.approx(0.01, rel=0.1)


def test_noise_is_not_taken_for_coherence():
    noisy = rates(Curve(1.0, 0.1), 1, 2, 3, 4, noise=(1.01, 0.98, 1.02, 0.97))
    assert fit(noisy).coherence == 0


@pytest.mark.parametrize("counts", [(2, 3, 5), (2, 3, 5, 8), (1, 2, 3, 4, 6, 8)])
@pytest.mark.parametrize("noise", [0.1, 0.3])
def test_speeds_with_errors_seldom_seem_to_have_a_maximum(counts, noise):
    random, found = Random(1), 0
    for _ in range(200):
        factors = tuple(1 + random.uniform(-noise, noise) for _ in counts)
        found += fit(rates(Curve(1.0, 0.3), *counts, noise=factors)).fastest(16) < 16
    assert found <= 200 * 0.15


def test_nothing_known_is_optimism():
    assert fit(()).speedup(2) > 1.8
    one = fit((Rate(4, 40.0),))
    assert 1 / one.seconds(4) == pytest.approx(40.0)
    assert one.speedup(2) == pytest.approx(fit(()).speedup(2))


def test_a_job_that_is_slower_with_two_does_not_scale():
    assert fit((Rate(1, 10.0), Rate(2, 9.0))).speedup(8) == pytest.approx(1.0)


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    st.lists(
        st.builds(Rate, st.integers(-1, 70_000), st.floats(allow_nan=True, allow_infinity=True))
        | st.builds(Rate, st.integers(1, 70_000), st.floats(1e-9, 1e9)),
        max_size=6,
    )
)
def test_any_rates_give_a_curve(measured: list[Rate]):
    curve = fit(tuple(measured))
    assert curve.speedup(1) == 1
    assert curve.speedup(0) == 0
    for cores in (1, 2, 3, 64, 65536):
        assert 0 < curve.seconds(cores) < math.inf
        assert 0 < curve.speedup(cores) <= cores * (1 + 1e-9)
    assert curve.speedups([1, 3, 64]) == pytest.approx([curve.speedup(n) for n in (1, 3, 64)])


@pytest.mark.parametrize(
    ("curve", "fastest"),
    [
        (Curve(1.0, 0.05), 64),
        (Curve(1.0, 1.0), 1),
        (Curve(1.0, 0.1, 0.011), 9),  # The square root of 0.9 / 0.011 is 9.05.
        (Curve(1.0, 0.1, 1e-6), 64),
        (Curve(1.0, 0.1, 5.0), 1),
    ],
)
def test_the_number_of_cores_with_which_it_is_fastest(curve, fastest):
    assert curve.fastest(64) == fastest
    assert curve.fastest(64) == min(range(1, 65), key=curve.seconds)
