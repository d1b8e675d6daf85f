# Copyright 2026 The tf_malleable Authors. Licensed under Apache-2.0.
"""Shares are in proportion, use everything and do not swap."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tf_malleable.model import Grant, Job, Shape
from tf_malleable.policies.shares.max_min_shares import fill


def job(name: str, least: int, most: int, has: int = 0) -> Job:
    return Job(name, Shape(least, least, most), submitted=0.0, grant=Grant(frozenset(range(has))))


LIMITS = st.tuples(st.integers(1, 6), st.integers(0, 12), st.floats(0.01, 100))


@pytest.mark.slow
@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(st.lists(LIMITS, max_size=8), st.integers(0, 60))
def test_shares(limits: list[tuple[int, int, float]], spare: int):
    jobs = [job(str(i), least, least + more) for i, (least, more, _) in enumerate(limits)]
    weights = [weight for _, _, weight in limits]
    cores = sum(one.shape.min for one in jobs) + spare
    counts = fill(jobs, weights, cores)
    assert sum(counts.values()) == min(cores, sum(one.shape.max for one in jobs))
    for one in jobs:
        assert one.shape.min <= counts[one.id] <= one.shape.max
    for one, weight in zip(jobs, weights, strict=True):
        for other, others_weight in zip(jobs, weights, strict=True):
            if counts[one.id] < one.shape.max and counts[other.id] > other.shape.min:
                level = (counts[one.id] + 1) / weight
                assert (counts[other.id] - 1) / others_weight <= level + 1e-3


def test_shares_by_hand():
    jobs = [job("a", 1, 99), job("b", 1, 99), job("c", 5, 99), job("d", 1, 2)]
    assert fill(jobs, [1, 1, 1, 1], 16) == {"a": 5, "b": 4, "c": 5, "d": 2}
    assert fill(jobs, [3, 1, 1, 1], 20) == {"a": 10, "b": 3, "c": 5, "d": 2}


def test_the_odd_core_stays_with_who_has_it():
    assert fill([job("a", 1, 9, has=1), job("b", 1, 9, has=2)], [1, 1], 3) == {"a": 1, "b": 2}
    assert fill([job("a", 1, 9, has=2), job("b", 1, 9, has=1)], [1, 1], 3) == {"a": 2, "b": 1}
