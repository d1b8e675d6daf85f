# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Histograms of latencies: where a latency goes, and what quantiles say."""

from __future__ import annotations

import math
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tf_malleable.model.services.latency import BUCKETS, bucket_of, merged, quantile, upper_bound

LATENCIES = st.floats(0, 4000)


@given(LATENCIES)
def test_a_bucket_has_its_latency_and_is_narrow(seconds):
    bucket = bucket_of(seconds)
    high = upper_bound(bucket)
    low = upper_bound(bucket - 1) if bucket else 0.0
    assert 0 <= bucket < BUCKETS
    assert low <= seconds + 1e-9
    assert seconds < high + 1e-9
    assert high - low <= max(1.001e-6, low / 16 + 1e-9)


def test_buckets_ascend_without_gaps():
    bounds = [upper_bound(bucket) for bucket in range(BUCKETS)]
    assert bounds == sorted(set(bounds))
    assert bounds[0] == 1e-6
    assert bounds[-1] == pytest.approx(2**32 / 1e6)


@pytest.mark.parametrize("seconds", [4295.0, 1e9, 1e30])
def test_what_takes_very_long_is_in_the_last_bucket(seconds):
    assert bucket_of(seconds) == BUCKETS - 1


@given(st.lists(LATENCIES, min_size=1), st.sampled_from([0.01, 0.5, 0.9, 0.99, 0.999, 1.0]))
def test_quantiles_are_those_of_the_sorted_latencies(latencies, share):
    histogram = Counter(map(bucket_of, latencies))
    rank = max(1, math.ceil(share * len(latencies) - 1e-9))
    exact = sorted(latencies)[rank - 1]
    found = quantile(histogram, share)
    assert exact <= found + 1e-9
    assert found <= exact * 17 / 16 + 2e-6


def test_no_requests_have_no_quantile():
    assert quantile({}, 0.99) is None


def test_histograms_of_processes_add_up():
    assert merged([{3: 1, 5: 2}, {5: 1}, {}]) == {3: 1, 5: 3}
