# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Latencies of a service under measurement."""

from __future__ import annotations

import math

import pytest

from benchmarks.service import __main__ as service
from benchmarks.service.latencies import Latencies, latencies, percentile


def test_percentiles_are_latencies_that_were_measured():
    hundred = [float(number) for number in range(1, 101)]
    assert percentile(hundred, 0.5) == 50
    assert percentile(hundred, 0.99) == 99
    assert percentile([7.0], 0.99) == 7
    assert percentile([1.0, 2.0], 0.99) == 2


def test_a_window_counts_if_its_p99_is_within_the_objective():
    served = [(0.1, 0.01), (0.9, 0.02), (1.5, 0.06), (2.0, 0.05), (7.0, 0.01)]
    assert latencies(served, 0.05, []) == Latencies(5, 0.02, 0.06, 0.75, None)


@pytest.mark.parametrize(
    ("late", "expected"), [((), 0.0), ((5.3,), 0.35), ((5.3, 6.18), 1.2), ((9.9,), math.inf)]
)
def test_a_rise_is_over_once_each_second_is_within_the_objective(late, expected):
    served = [(at / 10, 0.01) for at in range(100)] + [(at, 0.9) for at in late]
    settled = latencies(served, 0.05, [(5.0, 10.0)]).settled
    assert settled == pytest.approx(expected)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--loads", "9 %"], "must be one of 10 %, 30 %, 80 %, 10 and 80 % in turn, not '9 %'"),
        (["--seconds", "0"], "--seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, said, capsys):
    with pytest.raises(SystemExit):
        service.main(arguments)
    assert said in capsys.readouterr().err
