# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Latencies of a service under measurement."""

from __future__ import annotations

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
    assert latencies(served, 0.05, 3.5) == Latencies(5, 0.02, 0.06, 0.75, 3.5)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--share", "1"], "must be a share between 0 and 1, not '1'"),
        (["--share", "nan"], "must be a share between 0 and 1, not 'nan'"),
        (["--seconds", "0"], "--seconds"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments, said, capsys):
    with pytest.raises(SystemExit):
        service.main(arguments)
    assert said in capsys.readouterr().err
